package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

func piece(offset int, text string) []chat.Preview {
	return []chat.Preview{{Block: "b", Offset: offset, Text: text, Kind: chat.TextBlock}}
}

// A reader keeps what it was shown. So an owner that is cut off must not show text that the next owner does not have.
func TestAnOwnerThatIsCutOffShowsNoText(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	old := c.owner(id)
	seen := c.follow(t.Context(), old, id)
	if err := c.members[old].sessions.Preview(t.Context(), ada, id, piece(0, "first ")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "…first ", seen)
	c.members[old].port.Cut(true)
	refused := make(chan error, 1)
	go func() { refused <- c.members[old].sessions.Preview(t.Context(), ada, id, piece(6, "of nobody")) }()
	if err := c.members[(old+1)%3].sessions.Preview(t.Context(), ada, id, piece(6, "of the next owner")); err != nil {
		t.Fatal(err)
	}
	if got := seen(); got != "…first " {
		t.Errorf("the reader of the node that is cut off sees %q", got)
	}
	c.members[old].port.Cut(false)
	if err := <-refused; chat.ReasonOf(err) != chat.OwnerChanged {
		t.Errorf("the text that no reader has seen: %v", err)
	}
	// The node gets what it missed with the next piece.
	if err := c.members[(old+1)%3].sessions.Preview(t.Context(), ada, id, piece(23, ".")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "…first of the next owner.", seen)
}

// newClusterWithBar returns a cluster, and a function that bars one of its nodes from becoming an owner.
func newClusterWithBar(t *testing.T) (*testCluster, func(node int)) {
	var barred atomic.Int64
	barred.Store(-1)
	c := newClusterWith(t, func(o *Options) {
		name := o.Name
		o.MayOwn = func() error {
			if name == fmt.Sprint("n", barred.Load()) {
				return errors.New("another node is to be the next owner")
			}
			return nil
		}
	})
	return c, func(node int) { barred.Store(int64(node)) }
}

// checkUnfinished checks the text that a node has of the only unfinished block of a session.
func (c *testCluster) checkUnfinished(node int, id chat.SessionID, want string) {
	c.t.Helper()
	if blocks := c.members[node].hub.Blocks(id); len(blocks) != 1 || blocks[0].Text != want {
		c.t.Errorf("node %d has %v, readers were shown %q", node, blocks, want)
	}
}

// One of two other nodes misses all text. It becomes the owner, and has the text of the third one.
func TestANewOwnerHasTheTextOfTheOtherNodes(t *testing.T) {
	t.Parallel()
	c, bar := newClusterWithBar(t)
	id := c.session(0)
	old := c.owner(id)
	next, third := (old+1)%3, (old+2)%3
	bar(third)
	c.members[next].port.Misses = func([]byte) bool { return true }
	reading, leave := context.WithCancel(t.Context())
	seen := c.follow(reading, old, id)
	text := ""
	for n := range 20 {
		one := fmt.Sprint(n, " ")
		if err := c.members[old].sessions.Preview(t.Context(), ada, id, piece(len(text), one)); err != nil {
			t.Fatal(err)
		}
		text += one
	}
	eventually(t, "…"+text, seen)
	// An event that does not finish the block: its position is behind that of the text.
	if _, err := c.members[old].sessions.Append(t.Context(), ada, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "meanwhile"})}); err != nil {
		t.Fatal(err)
	}
	if blocks := c.members[next].hub.Blocks(id); len(blocks) > 0 {
		t.Fatalf("the next owner has %q already", blocks[0].Text)
	}
	leave()
	c.stop(old)
	eventually(t, fmt.Sprint(next), func() string { return fmt.Sprint(c.owner(id)) })
	c.checkUnfinished(next, id, text)
}

// A node has stored a piece that the owner has not shown yet, because it does not know that it is stored. A new owner to which the partition
// is handed over waits for the answer of that node: its readers were shown the piece.
func TestANewOwnerHasTextThatTheFormerOwnerHasNotShown(t *testing.T) {
	t.Parallel()
	var lossy atomic.Bool
	c := newCluster(t)
	id := c.session(0)
	old := c.owner(id)
	next, third := (old+1)%3, (old+2)%3
	for _, i := range []int{old, next} {
		c.members[i].port.Misses = func([]byte) bool { return lossy.Load() }
	}
	c.members[next].gatherTime = limit
	lossy.Store(true)
	refused := make(chan error, 1)
	go func() { refused <- c.members[old].sessions.Preview(t.Context(), ada, id, piece(0, "shown elsewhere")) }()
	shown := func() string {
		if blocks := c.members[third].hub.Blocks(id); len(blocks) > 0 {
			return blocks[0].Text
		}
		return ""
	}
	eventually(t, "shown elsewhere", shown)
	c.members[third].port.Cut(true)
	if err := c.members[old].partOf(id).get().HandOver(t.Context(), c.members[next].Name()); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; chat.ReasonOf(err) != chat.OwnerChanged {
		t.Fatal(err)
	}
	lossy.Store(false)
	c.members[third].port.Cut(false)
	eventually(t, fmt.Sprint(next), func() string { return fmt.Sprint(c.owner(id)) })
	c.checkUnfinished(next, id, "shown elsewhere")
}

// All nodes are killed when one of them has stored and shown a piece, and the owner does not know it yet. That node is the last one that
// starts again: the owner waits for its text.
func TestANewOwnerWaitsForTheTextOfANodeThatStartsLate(t *testing.T) {
	t.Parallel()
	var lossy atomic.Bool
	c := newCluster(t)
	id := c.session(0)
	old := c.owner(id)
	next, third := (old+1)%3, (old+2)%3
	for _, i := range []int{old, next} {
		c.members[i].port.Misses = func([]byte) bool { return lossy.Load() }
	}
	lossy.Store(true)
	go func() { _ = c.members[old].sessions.Preview(t.Context(), ada, id, piece(0, "shown elsewhere")) }()
	eventually(t, "true", func() string { return fmt.Sprint(len(c.members[third].hub.Blocks(id)) == 1) })
	for i := range c.members {
		c.stop(i)
	}
	for _, i := range []int{old, next} {
		c.start(i, c.members[i].dir)
		c.members[i].gatherTime = limit
	}
	p := c.members[next].Partition(id)
	eventually(t, "true", func() string { return fmt.Sprint(c.members[next].Status()[p].Copy.Epoch > 1) })
	c.start(third, c.members[third].dir)
	c.checkUnfinished(c.owner(id), id, "shown elsewhere")
}

// A node becomes the owner while it is cut off from the others, and lacks text that they have. It waits for the first answer.
func TestANewOwnerThatIsCutOffWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	c, bar := newClusterWithBar(t)
	id := c.session(0)
	old := c.owner(id)
	next, third := (old+1)%3, (old+2)%3
	bar(third)
	c.members[next].port.Misses = func([]byte) bool { return true }
	c.members[next].gatherTime = time.Millisecond
	if err := c.members[old].sessions.Preview(t.Context(), ada, id, piece(0, "text")); err != nil {
		t.Fatal(err)
	}
	c.members[next].port.CutNodes(true)
	c.stop(old)
	p := c.members[next].Partition(id)
	eventually(t, c.members[next].Name(), func() string { return c.members[next].Status()[p].Copy.Claim.Node })
	c.members[next].port.CutNodes(false)
	eventually(t, fmt.Sprint(next), func() string { return fmt.Sprint(c.owner(id)) })
	c.checkUnfinished(next, id, "text")
}

// A killed owner has no text in its file that nobody was shown: the next owner may have written other text in its place.
func TestAKilledOwnerHasNoTextThatNobodyWasShown(t *testing.T) {
	t.Parallel()
	var lossy atomic.Bool
	c := newCluster(t)
	id := c.session(0)
	old := c.owner(id)
	next := (old + 1) % 3
	for i := range c.members {
		c.members[i].port.Misses = func([]byte) bool { return lossy.Load() }
	}
	lossy.Store(true)
	refused := make(chan error, 1)
	go func() {
		refused <- c.members[old].sessions.Preview(t.Context(), ada, id, piece(0, "what nobody was shown"))
	}()
	sent := func() string {
		s := &c.members[old].partOf(id).unstored
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Sprint(len(s.waiting))
	}
	eventually(t, "1", sent)
	c.stop(old)
	if err := <-refused; err == nil {
		t.Fatal("the piece was accepted although no other node has it")
	}
	lossy.Store(false)
	if err := c.members[next].sessions.Preview(t.Context(), ada, id, piece(0, "other ")); err != nil {
		t.Fatal(err)
	}
	c.start(old, c.members[old].dir)
	c.settle()
	if err := c.members[next].sessions.Preview(t.Context(), ada, id, piece(6, "text")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "other text", func() string {
		if blocks := c.members[old].hub.Blocks(id); len(blocks) > 0 {
			return blocks[0].Text
		}
		return ""
	})
}

// The other nodes answer, but they do not store text: the disks may be full, or a message too large for the network. The session goes on.
func TestTextThatNoOtherNodeStoresIsShown(t *testing.T) {
	t.Parallel()
	var lossy atomic.Bool
	c := newCluster(t)
	id := c.session(0)
	for i := range c.members {
		c.members[i].port.Misses = func([]byte) bool { return lossy.Load() }
	}
	owner := c.owner(id)
	seen := c.follow(t.Context(), owner, id)
	lossy.Store(true)
	if err := c.members[owner].sessions.Preview(t.Context(), ada, id, piece(0, "text")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "…text", seen)
}

// Two of four other nodes have to store a message, so that a majority of five has it.
func TestTextIsStoredByAMajority(t *testing.T) {
	var s unstoredTexts
	texts := make([]*unstoredText, 4)
	for i := range texts {
		texts[i] = &unstoredText{epoch: 3, number: uint64(i + 1), need: 2, enough: make(chan struct{})}
		s.add(texts[i])
	}
	enough := func() (all string) {
		for _, t := range texts {
			select {
			case <-t.enough:
				all += "y"
			default:
				all += "n"
			}
		}
		return all
	}
	for _, step := range []struct {
		stored storedMessages
		want   string
	}{
		{storedMessages{epoch: 3, first: 1, last: 3, node: "a"}, "nnnn"},
		{storedMessages{epoch: 3, first: 1, last: 3, node: "a"}, "nnnn"}, // the same node again
		{storedMessages{epoch: 2, first: 1, last: 4, node: "b"}, "nnnn"}, // of the owner before
		{storedMessages{epoch: 3, first: 2, last: 2, node: "b"}, "nynn"},
		{storedMessages{epoch: 3, first: 2, last: 9, node: "c"}, "nyyn"},
		{storedMessages{epoch: 3, first: 1, last: 4, node: "d"}, "yyyy"},
	} {
		encoded := step.stored.append(nil)
		got, ok := readStored(encoded[1:])
		if !ok || got != step.stored {
			t.Fatalf("%+v is read as %+v", step.stored, got)
		}
		if s.stored(&got); enough() != step.want {
			t.Errorf("after %+v: %s, want %s", step.stored, enough(), step.want)
		}
	}
	if len(s.waiting) > 0 {
		t.Errorf("%d messages wait for nothing", len(s.waiting))
	}
}

// A reader was shown text that the owner does not show yet, because it was not told that a node has stored it. The reader resumes by
// position at a third node, which has missed the text.
func TestReaderByPositionIsAheadOfTheOwner(t *testing.T) {
	t.Parallel()
	var lossy atomic.Bool
	c := newCluster(t)
	id := c.session(0)
	owner := c.owner(id)
	behind, shows := (owner+1)%3, (owner+2)%3
	for _, i := range []int{owner, behind} {
		c.members[i].port.Misses = func([]byte) bool { return lossy.Load() }
	}
	lossy.Store(true)
	written := make(chan error, 1)
	go func() { written <- c.members[owner].sessions.Preview(t.Context(), ada, id, piece(0, "text")) }()
	eventually(t, "1", func() string { return fmt.Sprint(len(c.members[shows].hub.Blocks(id))) })
	at := c.members[shows].hub.Blocks(id)[0].Ends[0].At
	if blocks := c.members[owner].hub.Blocks(id); len(blocks) > 0 {
		t.Fatalf("the owner shows %q already", blocks[0].Text)
	}
	if _, err := c.members[behind].sessions.GetAtPosition(t.Context(), ada, id, at); err != nil {
		t.Fatal(err)
	}
	blocks := c.members[behind].hub.Blocks(id)
	if len(blocks) != 1 || blocks[0].Text != "text" || blocks[0].Ends[0].At != at {
		t.Errorf("the node has %+v, want the text at %d", blocks, at)
	}
	lossy.Store(false)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// A reader that was shown text at one node resumes by position at another one, which has missed the text.
func TestReaderByPositionWaitsForTextOfAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	old := c.owner(id)
	behind := (old + 1) % 3
	c.members[behind].port.Misses = func([]byte) bool { return true }
	if err := c.members[old].sessions.Preview(t.Context(), ada, id, piece(0, "text")); err != nil {
		t.Fatal(err)
	}
	ends := c.members[old].hub.Blocks(id)[0].Ends
	at := ends[len(ends)-1].At
	if blocks := c.members[behind].hub.Blocks(id); len(blocks) > 0 {
		t.Fatalf("the node has %q already", blocks[0].Text)
	}
	if _, err := c.members[behind].sessions.GetAtPosition(t.Context(), ada, id, at); err != nil {
		t.Fatal(err)
	}
	c.checkUnfinished(behind, id, "text")
	// A node that is cut off has what it was sent, and does not know whether there is more.
	c.members[behind].port.Cut(true)
	if _, err := c.members[behind].sessions.GetAtPosition(t.Context(), ada, id, at); err != nil {
		t.Errorf("a position that the node has: %v", err)
	}
	if _, err := c.members[behind].sessions.GetAtPosition(t.Context(), ada, id, at+1); chat.CodeOf(err) != chat.Unavailable {
		t.Errorf("a position that the node does not have: %v", err)
	}
}
