package journal

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// history changes a journal at random with its own methods, as a single server does, and
// returns the same as changes.
type history struct {
	t       *rapid.T
	j       *Journal
	authors map[chat.SessionID]*author
	gone    map[chat.SessionID]bool // erased, or never to be created
}

func newHistory(t *rapid.T, j *Journal) *history {
	return &history{t: t, j: j, authors: map[chat.SessionID]*author{}, gone: map[chat.SessionID]bool{}}
}

// partitionOf returns the partition of a change. Aliases have one of their own, so that
// they come in any order with the changes of their sessions.
func partitionOf(c Change) uint16 {
	id := chat.SessionID("")
	switch c := c.(type) {
	case *AliasChange:
		return uint16(c.Alias[0] % 3)
	case *CommitChange:
		id = c.Session
	case *ImportChange:
		id = c.Session
	case *FilesChange:
		id = c.Session
	case *EraseChange:
		id = c.Receipt.Session
	}
	return uint16(core.NumberFor(id, 0) % 3)
}

// step makes one change. refused says that it must be refused.
func (h *history) step() (changes []Change, refused bool) {
	t := h.t
	id := chat.SessionID(rapid.StringMatching(`s-[1-5]`).Draw(t, "session"))
	a := h.authors[id]
	switch what := rapid.IntRange(0, 19).Draw(t, "step"); {
	case h.gone[id]:
		return nil, false
	case a == nil && what < 6:
		return h.importLog(id), false
	case a == nil:
		a = h.must(newAuthor(h.j, id))
		h.authors[id] = a
		return h.commit(a, chat.SessionStarted{Agent: "demo", Workspace: rapid.StringMatching(`w[12]`).Draw(t, "workspace")}), false
	case what < 2:
		e, err := h.j.BeginErase(ctx, id, 1, 7)
		h.check(err)
		h.check(h.j.FinishErase(ctx, e))
		delete(h.authors, id)
		h.gone[id] = true
		return []Change{&EraseChange{e}}, false
	case what < 4:
		info := chat.FileInfo{Path: rapid.StringMatching(`[abc]`).Draw(t, "path"), SHA256: rapid.SampledFrom([]string{"", "x"}).Draw(t, "hash")}
		if info.SHA256 != "" {
			info.Size = rapid.Int64Range(0, 5000).Draw(t, "size")
		}
		c := &FilesChange{Session: id, Files: []chat.FileInfo{info}}
		_, err := h.j.Apply(&Frame{Partition: partitionOf(c), Copy: []byte{1}, Changes: []Change{c}})
		h.check(err)
		return []Change{c}, false
	case what < 8:
		return h.alias(id)
	}
	a.Clock += chat.At(rapid.Int64Range(0, 3_000_000).Draw(t, "pause"))
	state := a.State.Clone()
	var bodies []chat.Body
	n := rapid.IntRange(1, 4).Draw(t, "events")
	if rapid.IntRange(0, 19).Draw(t, "many") == 0 {
		n = 700 // so that checkpoints are made
	}
	for i := range n {
		if i < 4 && rapid.Bool().Draw(t, "keyed") {
			a.Key(i, fmt.Sprintf("c-%d-%d", a.State.Last, i))
		}
		if i < 4 {
			bodies = append(bodies, randomBody(t, state))
		} else {
			bodies = append(bodies, chat.AgentStatus{Message: "busy"})
		}
	}
	return h.commit(a, bodies...), false
}

func (h *history) commit(a *author, bodies ...chat.Body) []Change {
	c, err := a.build(bodies...)
	h.check(err)
	for i := range c.Events {
		if chat.FinishedBlock(c.Events[i].Body) != "" {
			c.Ends = append(c.Ends, core.BlockEnds{Seq: c.Events[i].Seq, Ends: []chat.End{{Bytes: 3, At: a.Clock}, {Bytes: 1 << 20, At: a.Clock + 9}}})
		}
	}
	h.check(h.j.Commit(ctx, c))
	a.State = a.next
	return []Change{&CommitChange{Commit: c}}
}

func (h *history) alias(id chat.SessionID) (changes []Change, refused bool) {
	foreign := rapid.StringMatching(`f[1-3]`).Draw(h.t, "foreign")
	c := &AliasChange{Alias: AliasIDOf("w", "user:ann", foreign), Session: id, Replace: rapid.Bool().Draw(h.t, "replace")}
	if c.Replace {
		h.check(h.j.ReplaceAlias(ctx, "w", "user:ann", foreign, id))
		return []Change{c}, false
	}
	first, err := h.j.SetAlias(ctx, "w", "user:ann", foreign, id)
	if chat.CodeOf(err) != chat.Gone {
		h.check(err)
	}
	return []Change{c}, first != id
}

// importLog imports a log in several parts, sometimes after an import that was given up.
func (h *history) importLog(id chat.SessionID) (changes []Change) {
	a := h.must(newAuthor(h.j, id))
	bodies := []chat.Body{chat.SessionStarted{Agent: "demo"}, message("one"),
		chat.AgentInputRequest{RequestID: "r1", InputType: chat.InputText, Text: "?", Deadline: epoch}, message("two")}
	if rapid.Bool().Draw(h.t, "long") {
		bodies = append(bodies, slices.Repeat([]chat.Body{chat.AgentStatus{Message: "busy"}}, 1500)...)
	}
	c, err := a.Key(1, "c-1").build(append(bodies, chat.UserInputResponse{RequestID: "r1", Text: "!"})...)
	h.check(err)
	var whole *ImportChange
	collect := func(i *ImportChange) error { whole = i; return nil }
	h.check(h.j.SplitImport(ctx, id, give(c.Facts), collect))
	if whole.Step != ImportEnd {
		h.t.Fatalf("one part has step %d", whole.Step)
	}
	first, rest := cutImport(whole, 2)
	if rapid.Bool().Draw(h.t, "given up") {
		changes = []Change{first, &ImportChange{&core.Commit{Session: id, Number: c.Number}, ImportDrop}}
	}
	second, third := cutImport(rest, 2)
	h.check(h.j.Import(ctx, id, give(c.Facts)))
	a.State = a.next
	h.authors[id] = a
	return append(changes, first, second, third)
}

// cutImport divides a part after n events.
func cutImport(c *ImportChange, n int) (first, rest *ImportChange) {
	a, b := *c.Commit, *c.Commit
	a.Events, a.Facts, b.Events, b.Facts = c.Events[:n], c.Facts[:n], c.Events[n:], c.Facts[n:]
	a.Keys, b.Keys, a.Ends, b.Ends = nil, nil, nil, nil
	for _, k := range c.Keys {
		if k.Seq <= a.Events[n-1].Seq {
			a.Keys = append(a.Keys, k)
		} else {
			b.Keys = append(b.Keys, k)
		}
	}
	for _, e := range c.Ends {
		if e.Seq <= a.Events[n-1].Seq {
			a.Ends = append(a.Ends, e)
		} else {
			b.Ends = append(b.Ends, e)
		}
	}
	a.Head, a.Busy, a.Record, a.RecordJSON, a.Checkpoint = a.Facts[n-1].Hash(), false, nil, nil, nil
	b.After = a.Events[n-1].Seq
	return &ImportChange{&a, ImportPart}, &ImportChange{&b, c.Step}
}

func (h *history) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) must(a *author, err error) *author {
	h.t.Helper()
	h.check(err)
	return a
}

// sent returns a change as another node gets it.
func sent(t testing.TB, c Change) Change {
	t.Helper()
	kind, data, err := EncodeChange(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeChange(kind, data)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// dump returns all keys and values but those that describe the store itself.
func dump(t testing.TB, j *Journal) map[string]string {
	t.Helper()
	it, err := j.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		if k := it.Key(); k[0] != kFormat && k[0] != kCopy {
			all[string(k[:1])+" "+hex.EncodeToString(k[1:])] = string(it.Value())
		}
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// sameStores reports how two dumps differ.
func sameStores(t testing.TB, got, want map[string]string) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[k]; !ok {
			t.Errorf("%s is missing", k)
		} else if v != want[k] {
			t.Errorf("%s is %q, want %q", k, v, want[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			t.Errorf("%s is too much: %q", k, got[k])
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// frameNumber is the Copy of a frame in tests.
func frameNumber(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
