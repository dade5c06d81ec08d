package node

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// previewWait is how long a piece waits for the position of the log that it follows.
const previewWait = time.Second

// showQueued shows the previews of a partition in their order, until ctx ends.
func (n *Node) showQueued(ctx context.Context, p *part, queue <-chan *sentPreviews, t Transport) {
	var next *sentPreviews
	for {
		m := next
		if m == nil {
			select {
			case m = <-queue:
			case <-ctx.Done():
				return
			}
		}
		p.textShown(m.epoch, m.number-1) // an event that follows an earlier message need not wait for this one
		next = m.join(queue, p.status().Copy.Pos)
		if n.showPreviews(ctx, p, m) {
			stored := storedMessages{p.number, m.epoch, m.first, m.number, n.opt.Name}
			t.Tell(p.status().Copy.Claim.Node, stored.append(nil))
		}
	}
}

// textShown is called when the messages of an epoch up to a number are shown or lost. An epoch that the log does not have yet is left out.
func (p *part) textShown(epoch, number uint64) {
	if epoch <= p.status().Copy.Epoch {
		p.order.reached(epoch, number)
	}
}

// showPreviews gives pieces to this node's readers. It reports whether this node has all of them.
func (n *Node) showPreviews(ctx context.Context, p *part, m *sentPreviews) bool {
	defer p.textShown(m.epoch, m.number)
	wait, cancel := context.WithTimeout(ctx, previewWait)
	defer cancel()
	if err := p.get().Reached(wait, m.pos); err != nil {
		return false // this node is far behind
	}
	gaps, ok := n.addPreviews(ctx, p, m.epoch, m.sessions)
	for _, of := range gaps {
		n.metrics.gaps.Inc()
		missing, err := n.askForBlocks(wait, p, of.Session)
		if err != nil {
			return false
		}
		// The owner shows these pieces after this node has stored them, so its answer may end before them.
		of.Pieces = append(missing, of.Pieces...)
		left, added := n.addPreviews(ctx, p, m.epoch, []core.SessionPieces{of})
		ok = ok && added && len(left) == 0
	}
	return ok
}

// askForBlocks asks the owner for the unfinished blocks of a session, because a piece was lost.
func (n *Node) askForBlocks(ctx context.Context, p *part, id chat.SessionID) ([]chat.Preview, error) {
	b, pos, err := n.attempt(ctx, p, message{kind: msgOwnerBlocks, body: []byte(id)}, previewWait)()
	if err == nil {
		err = p.get().Reached(ctx, pos)
	}
	if err != nil {
		return nil, err
	}
	return readBlocks(b)
}

// addPreviews adds the pieces of an owner that are new here. It returns those of sessions with a piece that does not continue its
// block, and whether the others are stored.
func (n *Node) addPreviews(ctx context.Context, p *part, epoch uint64, all []core.SessionPieces) (gaps []core.SessionPieces, ok bool) {
	p.showMu.Lock()
	defer p.showMu.Unlock()
	if p.status().Copy.Epoch != epoch {
		return nil, false // of an owner before this one
	}
	return n.storePreviews(ctx, all)
}

// storePreviews stores the pieces that are new here and shows them. The caller holds the partition's lock showMu. The results are
// those of addPreviews.
func (n *Node) storePreviews(ctx context.Context, all []core.SessionPieces) (gaps []core.SessionPieces, ok bool) {
	ok = true
	write := make([]core.SessionPieces, 0, len(all))
	for _, of := range all {
		fresh, whole := n.freshPieces(ctx, of.Session, of.Pieces)
		if !whole {
			gaps = append(gaps, of)
		}
		if len(fresh) > 0 {
			write = append(write, core.SessionPieces{Session: of.Session, Pieces: fresh})
		}
	}
	n.opt.Journal.WritePreviews(ctx, write) // once for all sessions: it is a system call
	for _, of := range write {
		if of.Err != nil {
			ok = false
			n.log.Warn("text that is being written could not be stored on this node", "session", of.Session, "err", of.Err)
			continue
		}
		entries := make([]core.Entry, len(of.Pieces))
		for i := range of.Pieces {
			entries[i] = core.Entry{At: of.Pieces[i].At, Piece: &of.Pieces[i]}
		}
		n.opt.Hub.Publish(of.Session, entries)
		n.sessions.Shown(of.Session, entries)
	}
	return gaps, ok
}

// freshPieces returns the pieces, or the parts of them, that this node does not have yet. whole is false if one of them does
// not continue its block.
func (n *Node) freshPieces(ctx context.Context, id chat.SessionID, pieces []chat.Preview) (fresh []chat.Preview, whole bool) {
	last, err := n.opt.Journal.LastAt(id)
	if err != nil {
		return nil, true // erased
	}
	have := n.blockSizes(id)
	whole = true
	for i := range pieces {
		q := pieces[i]
		length, open := have[q.Block]
		if !open && q.At <= last { // this node has missed it, or an event has finished the block
			finished, err := n.finished(ctx, id, &q)
			if err != nil {
				n.log.Warn("events of a session could not be read", "session", id, "err", err)
				return nil, false
			}
			if finished {
				continue
			}
		}
		if q.Offset > length {
			whole = false
			continue
		}
		if q.Text, q.Offset = q.TextAfter(length), length; q.Text != "" {
			have[q.Block] = q.End
			fresh = append(fresh, q)
		}
	}
	return fresh, whole
}

// finished reports whether an event that this node has applied has finished the block of a piece. It reads the events since the piece.
func (n *Node) finished(ctx context.Context, id chat.SessionID, q *chat.Preview) (bool, error) {
	newest := chat.Range{Desc: true, MaxBytes: 64 << 10}
	read := func(r chat.Range) ([]chat.Fact, bool, error) { return n.opt.Journal.Read(ctx, id, r) }
	for f, err := range chat.Facts(newest, read) {
		if err != nil {
			return false, err
		}
		label, at, err := f.Header()
		if err != nil || at < q.At { // an earlier block may have had the same id
			return false, err
		}
		switch label.Type {
		case chat.AgentText{}.Type(), chat.AgentThinking{}.Type(), chat.TurnCompleted{}.Type():
			e, err := f.Event()
			if err != nil {
				return false, err
			}
			if ended, ok := e.Body.(chat.TurnCompleted); ok && ended.TurnID == q.Turn || chat.FinishedBlock(e.Body) == q.Block {
				return true, nil
			}
		}
	}
	return false, nil
}
