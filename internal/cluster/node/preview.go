package node

import (
	"context"
	"math"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/fields"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/session"
)

// The owner sends text that is being written to all nodes, beside the log. The message has the position of the log that the
// owner had applied: another node shows the text after it has applied that position, and does not show it if a later event
// has made it outdated. A message may be lost; then the next one does not continue the block, and the node asks the owner for
// the whole block.

// sentPreviews are pieces of unfinished blocks, in sessions of one partition.
type sentPreviews struct {
	partition int
	epoch     uint64
	pos       cluster.Pos
	sessions  []core.SessionPieces
}

// append appends the encoded message to b.
func (m *sentPreviews) append(b []byte) []byte {
	b = append(b, msgPreviews)
	b = fields.AppendNumber(b, uint64(m.partition))
	b = fields.AppendNumber(b, m.epoch)
	b = fields.AppendNumber(b, uint64(m.pos))
	b = fields.AppendNumber(b, uint64(len(m.sessions)))
	for _, s := range m.sessions {
		b = fields.AppendBytes(b, s.Session)
		b = fields.AppendNumber(b, uint64(len(s.Pieces)))
		for i := range s.Pieces {
			p := &s.Pieces[i]
			b = fields.AppendBytes(b, p.Block)
			b = fields.AppendNumber(b, uint64(p.Offset))
			b = fields.AppendBytes(b, p.Text)
			b = fields.AppendBytes(b, p.Kind)
			b = fields.AppendBytes(b, p.Workstream)
			b = fields.AppendBytes(b, p.Turn)
			b = fields.AppendNumber(b, uint64(p.At))
		}
	}
	return b
}

// readPreviews decodes a message without its first byte.
func readPreviews(b []byte) (m *sentPreviews, ok bool) {
	r := fields.NewReader(b)
	text := func() string { return string(r.Bytes(len(b))) }
	number := func() int { return int(r.Number(math.MaxInt)) }
	m = &sentPreviews{partition: number(), epoch: r.Number(math.MaxUint64), pos: cluster.Pos(r.Number(math.MaxUint64))}
	m.sessions = make([]core.SessionPieces, r.Count())
	for i := range m.sessions {
		s := &m.sessions[i]
		s.Session = chat.SessionID(text())
		s.Pieces = make([]chat.Preview, r.Count())
		for k := range s.Pieces {
			s.Pieces[k] = chat.Preview{
				Block: chat.BlockID(text()), Offset: number(), Text: text(), Kind: chat.BlockKind(text()),
				Workstream: text(), Turn: chat.TurnID(text()), At: chat.At(number()),
			}
			s.Pieces[k].End = s.Pieces[k].Offset + len(s.Pieces[k].Text)
		}
	}
	return m, r.Done()
}

// WritePreviews writes pieces of open blocks to the preview file and sends them to the other nodes.
func (j *Journal) WritePreviews(ctx context.Context, all []core.SessionPieces) {
	n := j.node
	before := make([]cluster.Status, len(n.parts))
	for i, p := range n.parts {
		before[i] = p.status()
	}
	j.Journal.WritePreviews(ctx, all)
	messages := make([]*sentPreviews, len(n.parts))
	for i := range all {
		of := &all[i]
		part := n.Partition(of.Session)
		st := before[part]
		switch {
		case of.Err != nil:
			continue
		case !st.Owns:
			of.Err = session.ErrOwnerChanged
			continue
		case messages[part] == nil:
			messages[part] = &sentPreviews{partition: part, epoch: st.Copy.Epoch, pos: st.Copy.Pos}
		}
		messages[part].sessions = append(messages[part].sessions, *of)
	}
	transport := n.others()
	for _, m := range messages {
		if m != nil && transport != nil {
			transport.Broadcast(m.append(nil))
		}
	}
}

// previewWait is how long a piece waits for the position of the log that it follows.
const previewWait = time.Second

// heard returns the function that takes what other nodes broadcast. Each partition has a goroutine that shows it in its
// order.
func (n *Node) heard(ctx context.Context) func(data []byte) {
	queues := make([]chan *sentPreviews, len(n.parts))
	for i, p := range n.parts {
		queue := make(chan *sentPreviews, 1024)
		queues[i] = queue
		go func() {
			for {
				select {
				case m := <-queue:
					n.showPreviews(ctx, p, m)
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return func(data []byte) {
		switch {
		case len(data) > 0 && data[0] == msgPeer:
			if n.peer != nil {
				n.peer.Heard(data[1:])
			}
			return
		case len(data) > 0 && data[0] == msgPresence:
			if n.opt.Presence != nil {
				n.opt.Presence(data[1:])
			}
			return
		case len(data) > 0 && data[0] == msgPreviews:
			if m, ok := readPreviews(data[1:]); ok && m.partition < len(queues) {
				select {
				case queues[m.partition] <- m:
				default: // the next piece shows that one is missing
				}
				return
			}
		}
		n.log.Warn("a message of another node cannot be read; do all nodes run the same version?")
	}
}

// showPreviews gives pieces to this node's readers.
func (n *Node) showPreviews(ctx context.Context, p *part, m *sentPreviews) {
	wait, cancel := context.WithTimeout(ctx, previewWait)
	defer cancel()
	if err := p.get().Reached(wait, m.pos); err != nil {
		return // this node is far behind
	}
	for _, id := range n.addPreviews(ctx, p, m.epoch, m.sessions) {
		n.metrics.gaps.Inc()
		n.askForBlocks(wait, p, m.epoch, id)
	}
}

// askForBlocks asks the owner for the unfinished blocks of a session, because a piece was lost.
func (n *Node) askForBlocks(ctx context.Context, p *part, epoch uint64, id chat.SessionID) {
	b, pos, err := n.attempt(ctx, p, message{msgBlocks, []byte(id)})()
	var blocks []sentBlock
	if err != nil || json.Unmarshal(b, &blocks) != nil {
		return
	}
	if p.get().Reached(ctx, pos) != nil {
		return
	}
	missing := make([]chat.Preview, len(blocks))
	for i, b := range blocks {
		missing[i] = chat.Preview{Block: b.ID, End: len(b.Text), Text: b.Text, Kind: b.Kind, Workstream: b.Workstream, Turn: b.Turn, At: b.At}
	}
	n.addPreviews(ctx, p, epoch, []core.SessionPieces{{Session: id, Pieces: missing}})
}

// sentBlock is an unfinished block and the position of its end.
type sentBlock struct {
	chat.Block
	At chat.At `json:"at"`
}

func sentBlocks(blocks []chat.Block) []sentBlock {
	out := make([]sentBlock, len(blocks))
	for i, b := range blocks {
		out[i].Block = b
		if len(b.Ends) > 0 {
			out[i].At = b.Ends[len(b.Ends)-1].At
		}
	}
	return out
}

// addPreviews adds the pieces that are new here. It returns the sessions with a piece that does not continue its block.
func (n *Node) addPreviews(ctx context.Context, p *part, epoch uint64, all []core.SessionPieces) (gaps []chat.SessionID) {
	p.show.Lock()
	defer p.show.Unlock()
	if st := p.status(); st.Owns || st.Copy.Epoch != epoch {
		return nil // of an owner before this one
	}
	write := make([]core.SessionPieces, 0, len(all))
	for _, of := range all {
		fresh, whole := n.freshPieces(of.Session, of.Pieces)
		if !whole {
			gaps = append(gaps, of.Session)
		}
		if len(fresh) > 0 {
			write = append(write, core.SessionPieces{Session: of.Session, Pieces: fresh})
		}
	}
	n.opt.Journal.WritePreviews(ctx, write) // once for all sessions: it is a system call
	for _, of := range write {
		if of.Err != nil {
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
	return gaps
}

// freshPieces returns the pieces, or the parts of them, that this node does not have yet. whole is false if one of them does
// not continue its block.
func (n *Node) freshPieces(id chat.SessionID, pieces []chat.Preview) (fresh []chat.Preview, whole bool) {
	last, err := n.opt.Journal.LastAt(id)
	if err != nil {
		return nil, true // erased
	}
	have := map[chat.BlockID]int{}
	for _, b := range n.opt.Hub.Blocks(id) {
		have[b.ID] = len(b.Text)
	}
	whole = true
	for _, q := range pieces {
		length, open := have[q.Block]
		switch {
		case !open && q.At <= last: // an event has finished the block, or will not follow it
			continue
		case q.Offset > length:
			whole = false
			continue
		case q.End <= length:
			continue
		}
		q.Text, q.Offset = q.Text[length-q.Offset:], length
		have[q.Block] = q.End
		fresh = append(fresh, q)
	}
	return fresh, whole
}
