package node

import (
	"context"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/sleep"
)

// A node that does not have a session, an event or a file asks the owner of the partition how far it is, and looks again when it has
// applied as much. The owner first asks the other nodes how far they are: one of them may own the partition by now.

// catchUpTime is how long a request for an unknown session, event or file waits for what other nodes have.
const catchUpTime = 2 * time.Second

// CatchUp implements session.OtherNodes.
func (n *Node) CatchUp(ctx context.Context, number chat.Number) bool {
	return n.catchUp(ctx, n.partOfNumber(number))
}

// CatchUpAlias implements session.OtherNodes.
func (n *Node) CatchUpAlias(ctx context.Context, workspace, actorKey, foreign string) bool {
	return n.catchUp(ctx, n.partOfAlias(journal.AliasIDOf(workspace, actorKey, foreign)))
}

func (n *Node) catchUp(ctx context.Context, p *part) bool {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return p.catchUp.ask(ctx, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), catchUpTime)
		defer cancel()
		_, ok := n.askOwner(ctx, p, message{kind: msgAt})
		return ok
	})
}

// askOwner asks the owner of a partition and waits until this node has applied what the owner had. It returns nothing if this node is certainly
// the owner, and false when ctx ends.
func (n *Node) askOwner(ctx context.Context, p *part, m message) (answer []byte, ok bool) {
	for p.status().Owns {
		if n.confirmOwner(ctx, p) == nil {
			return nil, true
		}
		if sleep.For(ctx, retryPause) != nil {
			return nil, false
		}
	}
	type result struct {
		answer []byte
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := n.sendWithin(ctx, p, m, true, catchUpTime)()
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err == nil
	case <-ctx.Done():
		return nil, false
	}
}

// confirmTime is how long an owner waits for the positions of all other nodes that are present. Later those of a majority are enough.
const confirmTime = 500 * time.Millisecond

// confirmOwner returns an error if another node may own a partition of this node by now. A majority of the nodes has to answer, and this
// node has to apply what they have applied. The next owner may be one of those that do not answer in time; then this node has to apply
// what the log has. What it heard before the call proves nothing: after a pause it hears heartbeats first that were sent before it was replaced.
func (n *Node) confirmOwner(ctx context.Context, p *part) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	type answer struct {
		present bool // the node was when it was asked
		pos     cluster.Pos
		err     error
	}
	answers := make(chan answer)
	peers := p.get().Peers()
	present := 0 // nodes that have not answered
	for _, h := range peers {
		a := answer{present: n.Present(&h)}
		if a.present {
			present++
		}
		wait := n.others().Request(ctx, h.Node, p.number, message{kind: msgApplied}.encode(p))
		go func() {
			b, err := wait()
			if a.err = err; err == nil {
				_, a.pos, a.err = decodeReply(b)
			}
			select {
			case answers <- a:
			case <-ctx.Done():
			}
		}()
	}
	missing, highest := n.OthersOfMajority(), cluster.Pos(0)
	late := time.NewTimer(n.confirmTime)
	defer late.Stop()
	silent := len(peers)
	for silent > 0 && (present > 0 || missing > 0) {
		select {
		case a := <-answers:
			if silent--; a.present {
				present--
			}
			if a.err == nil {
				missing--
				highest = max(highest, a.pos)
			}
		case <-late.C:
			present = 0
		case <-ctx.Done():
			return session.ErrOwnerChanged
		}
	}
	if silent > 0 {
		_, last, err := n.partitions().Ends(ctx, p.number)
		if err != nil {
			return session.ErrOwnerChanged
		}
		highest = max(highest, last)
	}
	if missing > 0 || p.get().Reached(ctx, highest) != nil || !p.status().Owns {
		return session.ErrOwnerChanged
	}
	return nil
}

// CatchUpText implements session.OtherNodes.
func (n *Node) CatchUpText(ctx context.Context, id chat.SessionID) bool {
	p := n.partOf(id)
	if p.status().Owns {
		return n.catchUp(ctx, p)
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return p.catchUpText.ask(ctx, id, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), catchUpTime)
		defer cancel()
		return n.askForText(ctx, p, id)
	})
}

// askForText waits until this node has the unfinished text of a session that its owner has.
func (n *Node) askForText(ctx context.Context, p *part, id chat.SessionID) bool {
	epoch := p.status().Copy.Epoch
	b, ok := n.askOwner(ctx, p, message{kind: msgOwnerBlocks, body: []byte(id)})
	if !ok || b == nil {
		return ok
	}
	pieces, err := readBlocks(b)
	if err != nil {
		return false
	}
	_, ok = n.addPreviews(ctx, p, epoch, []core.SessionPieces{{Session: id, Pieces: pieces}})
	return ok
}

// ReadLog implements session.OtherNodes.
func (n *Node) ReadLog(ctx context.Context, id chat.SessionID) bool {
	p, log := n.partOf(id), n.partitions()
	if log == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return p.readLog.ask(ctx, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), catchUpTime)
		defer cancel()
		_, last, err := log.Ends(ctx, p.number)
		return err == nil && p.get().Reached(ctx, last) == nil
	})
}

// sharedQuestions are questions about sessions: each is a sharedQuestion.
type sharedQuestions struct {
	mu sync.Mutex
	of map[chat.SessionID]*sharedQuestion // those that are not answered yet
}

func (q *sharedQuestions) ask(ctx context.Context, id chat.SessionID, f func() bool) bool {
	q.mu.Lock()
	one := q.of[id]
	if one == nil {
		one = &sharedQuestion{}
		one.ended = func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.of[id] == one {
				delete(q.of, id)
			}
		}
		if q.of == nil {
			q.of = map[chat.SessionID]*sharedQuestion{}
		}
		q.of[id] = one
	}
	q.mu.Unlock()
	return one.ask(ctx, f)
}

// sharedQuestion is a question that is asked once for several callers. At most one is unanswered at a time. Calls that come before its
// answer share the next one, because the answer of the first may be older than their call.
type sharedQuestion struct {
	mu      sync.Mutex
	running bool
	next    *sharedAnswer // nil if nobody waits for it
	ended   func()        // called when none is unanswered any more; may be nil
}

type sharedAnswer struct {
	done chan struct{} // closed when ok is set
	ok   bool
}

// ask returns what f returns in a call that begins after this one, false if ctx ends before.
func (q *sharedQuestion) ask(ctx context.Context, f func() bool) bool {
	q.mu.Lock()
	if q.next == nil {
		q.next = &sharedAnswer{done: make(chan struct{})}
	}
	a := q.next
	if !q.running {
		q.running = true
		go q.run(f)
	}
	q.mu.Unlock()
	select {
	case <-a.done:
		return a.ok
	case <-ctx.Done():
		return false
	}
}

func (q *sharedQuestion) run(f func() bool) {
	for {
		q.mu.Lock()
		a := q.next
		q.next, q.running = nil, a != nil
		q.mu.Unlock()
		if a == nil {
			if q.ended != nil {
				q.ended()
			}
			return
		}
		a.ok = f()
		close(a.done)
	}
}
