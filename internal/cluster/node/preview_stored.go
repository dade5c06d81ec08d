package node

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/fields"
	"github.com/parley-hq/parley/internal/session"
)

// The owner shows text when enough other nodes have stored it, so that a majority has everything that any reader was shown. A node
// that stores a message tells the owner; the owner sends a message again until it knows. An owner that is cut off shows nothing
// that the next owner will not have, see gatherText.

// storedMessages is the numbers of the messages that a node has stored, as it tells them to the owner.
type storedMessages struct {
	partition   int
	epoch       uint64
	first, last uint64
	node        string
}

func (s *storedMessages) append(b []byte) []byte {
	b = append(b, msgStored)
	for _, n := range []uint64{uint64(s.partition), s.epoch, s.first, s.last} {
		b = fields.AppendNumber(b, n)
	}
	return fields.AppendBytes(b, s.node)
}

// readStored decodes a message without its first byte.
func readStored(b []byte) (s storedMessages, ok bool) {
	r := fields.NewReader(b)
	s.partition = int(r.Number(math.MaxInt))
	s.epoch, s.first, s.last = r.Number(math.MaxUint64), r.Number(math.MaxUint64), r.Number(math.MaxUint64)
	s.node = string(r.Bytes(len(b)))
	return s, r.Done()
}

// unstoredTexts are the messages of an owner that too few nodes have stored.
type unstoredTexts struct {
	mu      sync.Mutex
	waiting []*unstoredText // in the order of their numbers
}

// unstoredText is one of them.
type unstoredText struct {
	epoch, number uint64
	data          []byte        // the message
	need          int           // how many other nodes have to store it; with the owner they are a majority
	nodes         []string      // that have stored it
	enough        chan struct{} // closed when enough have
}

func (s *unstoredTexts) add(t *unstoredText) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, t)
}

func (s *unstoredTexts) remove(t *unstoredText) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, t); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

// stored counts a node for the messages that it has stored.
func (s *unstoredTexts) stored(of *storedMessages) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(t *unstoredText) bool {
		if t.epoch != of.epoch || t.number < of.first || t.number > of.last || slices.Contains(t.nodes, of.node) {
			return false
		}
		t.nodes = append(t.nodes, of.node)
		if len(t.nodes) < t.need {
			return false
		}
		close(t.enough)
		return true
	})
}

// of returns the pieces of a session in the messages of an epoch, in their order.
func (s *unstoredTexts) of(epoch uint64, id chat.SessionID) (pieces []chat.Preview) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.waiting {
		m, ok := readPreviews(t.data[1:])
		if !ok || t.epoch != epoch {
			continue
		}
		for _, of := range m.sessions {
			if of.Session == id {
				pieces = append(pieces, of.Pieces...)
			}
		}
	}
	return pieces
}

// ownerBlocks returns the unfinished blocks of a session of this owner, with the text that it does not show yet: another node may have
// shown it, to a reader that now is at the node that asks.
func (n *Node) ownerBlocks(p *part, id chat.SessionID) []sentBlock {
	unstored := p.unstored.of(p.status().Copy.Epoch, id) // first, because it may be shown meanwhile
	blocks := sentBlocks(n.opt.Hub.Blocks(id))
	for _, q := range unstored {
		i := slices.IndexFunc(blocks, func(b sentBlock) bool { return b.ID == q.Block })
		if i < 0 {
			i = len(blocks)
			blocks = append(blocks, sentBlock{Block: chat.Block{ID: q.Block, Kind: q.Kind, Workstream: q.Workstream, Turn: q.Turn}})
		}
		b := &blocks[i]
		if text := q.TextAfter(len(b.Text)); text != "" {
			b.Text += text
			b.Ends = append(slices.Clip(b.Ends), chat.End{Bytes: q.End, At: q.At})
		}
	}
	return blocks
}

// sendAgain is the time after which a message is sent again for the first time. It doubles up to maxSendAgain.
const (
	sendAgain    = 100 * time.Millisecond
	maxSendAgain = time.Second
)

// unstoredTime is how long the owner waits for nodes that answer and do not store text: their disks may be full, or the message too large.
const unstoredTime = 3 * time.Second

// waitStored waits until enough nodes have stored a message that was sent. It fails if another node has become the owner. If the other
// nodes do not store the message and say that this node is the owner, it waits no longer: text must not stop a session.
func (n *Node) waitStored(ctx context.Context, p *part, t *unstoredText, transport Transport) error {
	select {
	case <-t.enough:
		return nil
	default:
	}
	pause, begun := sendAgain, time.Now()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-t.enough:
			return nil
		case <-timer.C:
		}
		if st := p.status(); !st.Owns || st.Copy.Epoch != t.epoch {
			p.unstored.remove(t)
			return session.ErrOwnerChanged
		}
		if time.Since(begun) > unstoredTime && n.confirmOwner(ctx, p) == nil {
			p.unstored.remove(t)
			n.log.Warn("no other node stores text that is being written; its readers may see it again if this node is lost", "partition", p.number)
			return nil
		}
		n.metrics.resent.Inc()
		transport.Broadcast(t.data)
		pause = min(2*pause, maxSendAgain)
		timer.Reset(pause)
	}
}
