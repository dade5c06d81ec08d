package node

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// missed is a cluster in which a node has missed the beginning of a block that the owner and the third node have. An event that does not finish the
// block follows, and all nodes have it.
type missed struct {
	*testCluster
	id                  chat.SessionID
	owner, other, third int
	seen                func() string // by a reader at the node
}

const missedText = "one "

func newMissed(t *testing.T) *missed {
	t.Helper()
	c := newCluster(t)
	m := &missed{testCluster: c, id: c.known()}
	m.owner = c.owner(m.id)
	m.other, m.third = (m.owner+1)%3, (m.owner+2)%3
	var misses atomic.Bool
	var missed atomic.Int64 // messages with text
	c.members[m.other].port.Misses = func(data []byte) bool {
		return data[0] == msgPreviews && misses.Load() && missed.Add(1) > 0
	}
	m.seen = c.follow(t.Context(), m.other, m.id)
	m.append(chat.AgentText{Text: "begin"})
	eventually(t, "begin…", m.seen)
	misses.Store(true)
	m.write("b", missedText, 0)
	eventually(t, "true", func() string { return fmt.Sprint(missed.Load() > 0) })
	m.append(chat.AgentText{Text: "meanwhile"})
	eventually(t, "begin|meanwhile…", m.seen)
	misses.Store(false)
	return m
}

func (m *missed) append(b chat.Body) {
	m.t.Helper()
	if _, err := m.members[m.owner].sessions.Append(m.t.Context(), ada, m.id, []chat.Draft{chat.NewDraft(b)}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *missed) write(block chat.BlockID, text string, offset int) {
	m.t.Helper()
	err := m.members[m.owner].sessions.Preview(m.t.Context(), ada, m.id, []chat.Preview{{Block: block, Offset: offset, Text: text, Kind: chat.TextBlock}})
	if err != nil {
		m.t.Fatal(err)
	}
}

// Readers of the node get the whole text with the next piece, also one that has come after the event.
func TestTextThatWasMissedBeforeAnEventIsShown(t *testing.T) {
	t.Parallel()
	m := newMissed(t)
	later := m.follow(t.Context(), m.other, m.id)
	eventually(t, "begin|meanwhile…", later)
	m.write("b", "two ", len(missedText))
	first := sentBlocks(m.members[m.owner].hub.Blocks(m.id))[0].pieces()[0]
	for _, seen := range []func() string{m.seen, later} {
		eventually(t, "begin|meanwhile…one two ", seen)
	}
	m.append(chat.AgentText{Block: "b", Text: "one two three"})
	eventually(t, "begin|meanwhile|one two three…", m.seen)
	// A piece of the finished block that comes late is not shown.
	other := m.members[m.other]
	part := other.partOf(m.id)
	_, whole := other.addPreviews(t.Context(), part, part.status().Copy.Epoch, []core.SessionPieces{{Session: m.id, Pieces: []chat.Preview{first}}})
	if blocks := other.hub.Blocks(m.id); !whole || len(blocks) > 0 {
		t.Errorf("the finished block is open again: %v", blocks)
	}
}

// The text goes on when the third node is lost: the node stores what it has missed.
func TestTextThatWasMissedBeforeAnEventIsStored(t *testing.T) {
	t.Parallel()
	m := newMissed(t)
	m.stop(m.third)
	m.write("b", "two ", len(missedText))
	eventually(t, "begin|meanwhile…one two ", m.seen)
}

// A reader that comes from another node waits until this one has the text.
func TestTextThatWasMissedBeforeAnEventIsWaitedFor(t *testing.T) {
	t.Parallel()
	m := newMissed(t)
	if !m.members[m.other].CatchUpText(t.Context(), m.id) {
		t.Fatal("the owner did not answer")
	}
	eventually(t, "begin|meanwhile…"+missedText, m.seen)
}
