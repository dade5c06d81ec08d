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
		&CommitChange{Commit: c, Previews: 300}, &CommitChange{Commit: short}, first, rest, &ImportChange{&core.Commit{Session: "s-1", Number: 77}, ImportDrop},
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

// A log may have changes of a program before previews were numbered.
func TestChangesOfVersionOneAreDecoded(t *testing.T) {
	for _, c := range exampleChanges(t) {
		commit, is := c.(*CommitChange)
		if is {
			commit.Previews = 0
		}
		kind, data, err := EncodeChange(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		if is {
			data = data[1:] // Previews is the first field
		}
		data[0] = 1
		if got, err := DecodeChange(kind, data); err != nil || !reflect.DeepEqual(normal(got), normal(c)) {
			t.Errorf("%#v became %#v, %v", c, got, err)
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
		return []any{commit(c.Commit), c.Previews}
	case *ImportChange:
		return []any{commit(c.Commit), c.Step}
	}
	return c
}

// A node that applies a commit of another one has the body of each event that changes prompts or unfinished text.
func TestNeededBodiesAreDecoded(t *testing.T) {
	for name := range chat.Kinds() {
		body, err := chat.DecodeBody(name, []byte(`{"request_id":"q","block":"b"}`))
		if err != nil {
			t.Fatal(name, err)
		}
		_, ends := body.(chat.TurnCompleted)
		needed := ends || chat.AnswerOf(body) != "" || mayAsk(body) || chat.FinishedBlock(body) != ""
		if readBody(name) != needed {
			t.Errorf("%s: needed %t, decoded %t", name, needed, readBody(name))
		}
	}
}

func TestWrongChangesAreNotEncoded(t *testing.T) {
	c := exampleChanges(t)[0].(*CommitChange)
	for name, spoil := range map[string]func(*core.Commit){
		"key of another event":    func(c *core.Commit) { c.Keys = []core.Key{{Seq: 2, ClientID: "other"}} },
		"key of a missing event":  func(c *core.Commit) { c.Keys = []core.Key{{Seq: 9}} },
		"ends of a missing event": func(c *core.Commit) { c.Ends = []core.BlockEnds{{Seq: 9}} },
		"too large":               func(c *core.Commit) { c.Checkpoint = make([]byte, maxChange) },
	} {
		bad := *c.Commit
		spoil(&bad)
		if _, _, err := EncodeChange(nil, &CommitChange{Commit: &bad}); err == nil {
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
		if data[0] != changeVersion {
			return // it is written again in the newest version
		}
		again, back, err := EncodeChange(nil, c)
		if err != nil || again != kind || !bytes.Equal(back, data) {
			t.Fatalf("%x became %x, %v", data, back, err)
		}
	})
}
