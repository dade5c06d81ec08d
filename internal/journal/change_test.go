package journal

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// exampleChanges has one change of each kind.
func exampleChanges(t testing.TB) []Change {
	a := &author{State: &chat.State{Number: 77}, Actor: chat.Actor{Kind: chat.User, ID: "ann"}, Clock: epoch, Step: 1000, id: "s-1"}
	c := must(a.Key(1, "c-1").Key(2, "c-2").build(chat.SessionStarted{Agent: "demo"}, message("hi"), chat.AgentText{Block: "b", Text: "hello"}))(t)
	c.Ends = []core.BlockEnds{{Seq: 3, Ends: []chat.End{{Bytes: 2, At: epoch}, {Bytes: 5, At: epoch + 4}}}}
	c.Checkpoint = []byte(`{"last":3}`)
	a.State = a.next
	short := must(a.build(message("more")))(t)
	short.Busy = !short.Busy
	short.Files = []chat.FileInfo{{Path: "a", Size: 3, SHA256: "ab"}}
	first, rest := cutImport(&ImportChange{c, ImportEnd}, 1)
	return []Change{
		&CommitChange{c}, &CommitChange{short}, first, rest, &ImportChange{&core.Commit{Session: "s-1", Number: 77}, ImportDrop},
		&AliasChange{Alias: AliasIDOf("w", "a", "f"), Session: "s-1", Replace: true}, &FilesChange{"s-1", []chat.FileInfo{{Path: "a/b", MediaType: "text/plain", Size: 1 << 40, SHA256: "ab", StoredAt: epoch}, {Path: "c"}}, true},
		&EraseChange{core.Erasure{Number: 77, Workspace: "w", Owner: a.Actor, Receipt: chat.Receipt{Session: "s-1", Events: 3, ErasedAt: epoch, Note: "<&>"}}},
	}
}

func TestChangesAreDecodedAsTheyWere(t *testing.T) {
	for _, c := range exampleChanges(t) {
		if got := sent(t, c); !reflect.DeepEqual(normal(got), normal(c)) {
			t.Errorf("%#v became %#v", c, got)
		}
		kind, data, err := EncodeChange([]byte("before"), c)
		if err != nil || !bytes.HasPrefix(data, []byte("before")) {
			t.Fatal(err)
		}
		data = data[len("before"):]
		for n := range data {
			if _, err := DecodeChange(kind, data[:n]); chat.CodeOf(err) != chat.Invalid {
				t.Fatalf("%T cut after %d bytes: %v", c, n, err)
			}
		}
		for name, bad := range map[string][]byte{"longer": append(bytes.Clone(data), 0), "version": append([]byte{9}, data[1:]...)} {
			if _, err := DecodeChange(kind, bad); chat.CodeOf(err) != chat.Invalid {
				t.Fatalf("%T, %s: %v", c, name, err)
			}
		}
		if _, err := DecodeChange(99, data); chat.CodeOf(err) != chat.Invalid {
			t.Fatal(err)
		}
	}
}

// normal returns a change without what differs in memory only.
func normal(c Change) any {
	commit := func(c *core.Commit) core.Commit {
		n := *c
		n.Events = nil // the facts have the same
		if n.Record != nil {
			n.Record = &chat.Session{ID: n.Record.ID, Owner: n.Record.Owner}
		}
		return n
	}
	switch c := c.(type) {
	case *CommitChange:
		return commit(c.Commit)
	case *ImportChange:
		return []any{commit(c.Commit), c.Step}
	}
	return c
}

func TestWrongChangesAreNotEncoded(t *testing.T) {
	c := exampleChanges(t)[0].(*CommitChange)
	for name, spoil := range map[string]func(*core.Commit){
		"key of another event":    func(c *core.Commit) { c.Keys = []core.Key{{Seq: 2, ClientID: "other"}} },
		"key of a missing event":  func(c *core.Commit) { c.Keys = []core.Key{{Seq: 9}} },
		"ends of a missing event": func(c *core.Commit) { c.Ends = []core.BlockEnds{{Seq: 9}} },
		"too large":               func(c *core.Commit) { c.Checkpoint = make([]byte, MaxChange) },
	} {
		bad := *c.Commit
		spoil(&bad)
		if _, _, err := EncodeChange(nil, &CommitChange{&bad}); err == nil {
			t.Errorf("%s was encoded", name)
		}
	}
}

// What is decoded has one encoding, and events follow one another.
func FuzzDecodeChange(f *testing.F) {
	for _, c := range exampleChanges(f) {
		kind, data, err := EncodeChange(nil, c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind, data)
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		c, err := DecodeChange(kind, data)
		if err != nil {
			if chat.CodeOf(err) != chat.Invalid {
				t.Fatal(err)
			}
			return
		}
		again, back, err := EncodeChange(nil, c)
		if err != nil || again != kind || !bytes.Equal(back, data) {
			t.Fatalf("%x became %x, %v", data, back, err)
		}
	})
}
