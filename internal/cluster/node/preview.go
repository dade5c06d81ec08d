package node

import (
	"context"
	"math"
	"sync"
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
// has finished its block. A message may be lost; then the next one does not continue the block, and the node asks the owner for
// the whole block.
//
// The messages of a partition are numbered. A commit has the number of the last message before it, so that another node shows
// the text that was written before an event before the event, see [previewOrder]. The owner's own readers get the text when other
// nodes have stored it, see [unstoredTexts].

// sentPreviews are pieces of unfinished blocks, in sessions of one partition.
type sentPreviews struct {
	partition int
	epoch     uint64
	first     uint64 // the number, or of messages that were joined the first one; it is not sent
	number    uint64 // from 1 in each epoch; of messages that were joined the last one
	pos       cluster.Pos
	sessions  []core.SessionPieces
}

// append appends the encoded message to b.
func (m *sentPreviews) append(b []byte) []byte {
	b = append(b, msgPreviews)
	b = fields.AppendNumber(b, uint64(m.partition))
	b = fields.AppendNumber(b, m.epoch)
	b = fields.AppendNumber(b, m.number)
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
	m = &sentPreviews{partition: number(), epoch: r.Number(math.MaxUint64), number: r.Number(math.MaxUint64), pos: cluster.Pos(r.Number(math.MaxUint64))}
	m.first = m.number
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
	return m, r.Done() && m.number > 0
}

// WritePreviews sends pieces of open blocks to the other nodes and writes them to the preview file when enough of those have them. So a
// node that was killed has no text in its file that no reader was shown; the next owner may have written other text in its place.
func (j *Journal) WritePreviews(ctx context.Context, all []core.SessionPieces) {
	n := j.node
	unwritable := j.Writable() // before the other nodes show anything
	status := make([]cluster.Status, len(n.parts))
	for i, p := range n.parts {
		status[i] = p.status()
	}
	messages := make([]*sentPreviews, len(n.parts))
	for i := range all {
		of := &all[i]
		part := n.Partition(of.Session)
		st := status[part]
		switch {
		case unwritable != nil:
			of.Err = unwritable
			continue
		case !st.Owns:
			of.Err = session.ErrOwnerChanged
			continue
		case messages[part] == nil:
			messages[part] = &sentPreviews{partition: part, epoch: st.Copy.Epoch, pos: st.Copy.Pos}
		}
		messages[part].sessions = append(messages[part].sessions, *of)
	}
	failed := n.replicate(ctx, messages)
	written := make([]core.SessionPieces, 0, len(all))
	for i := range all {
		of := &all[i]
		if of.Err == nil {
			of.Err = failed[n.Partition(of.Session)]
		}
		if of.Err == nil {
			written = append(written, *of)
		}
	}
	j.Journal.WritePreviews(ctx, written)
	for i := range all {
		if of := &all[i]; of.Err == nil {
			of.Err = written[0].Err
			written = written[1:]
		}
	}
}

// replicate sends messages to the other nodes, one or nil for each partition, and waits until a majority of the nodes has them. It
// returns an error for each partition.
func (n *Node) replicate(ctx context.Context, messages []*sentPreviews) (failed []error) {
	sent := make([]*unstoredText, len(n.parts))
	transport := n.others()
	for i, m := range messages {
		if m != nil {
			sent[i] = n.parts[i].sendPreviews(m, transport, n.OthersOfMajority())
		}
	}
	failed = make([]error, len(n.parts))
	for i, t := range sent {
		switch {
		case t != nil:
			failed[i] = n.waitStored(ctx, n.parts[i], t, transport)
		case messages[i] != nil:
			failed[i] = session.ErrOwnerChanged
		}
	}
	return failed
}

// maxJoined bounds the messages that are shown together, and their sessions.
const maxJoined = 1024

// join adds the messages that wait in a queue, so that one write to the preview file is enough for all of them. It returns the
// first one that is of another epoch, is not the next one, or follows a position of the log that is not applied yet, nil if there is none.
func (m *sentPreviews) join(queue <-chan *sentPreviews, applied cluster.Pos) (other *sentPreviews) {
	var at map[chat.SessionID]int // in m.sessions
	for n := 0; n < maxJoined && len(m.sessions) < maxJoined; n++ {
		select {
		case other = <-queue:
		default:
			return nil
		}
		if other.epoch != m.epoch || other.number != m.number+1 || other.pos > max(applied, m.pos) {
			return other
		}
		if at == nil {
			at = make(map[chat.SessionID]int, 2*len(m.sessions))
			for i := range m.sessions {
				at[m.sessions[i].Session] = i
			}
		}
		m.number, m.pos = other.number, max(m.pos, other.pos)
		for _, of := range other.sessions {
			if i, ok := at[of.Session]; ok {
				m.sessions[i].Pieces = append(m.sessions[i].Pieces, of.Pieces...)
				continue
			}
			at[of.Session] = len(m.sessions)
			m.sessions = append(m.sessions, of)
		}
	}
	return nil
}

// previewWait is how long a piece waits for the position of the log that it follows.
const previewWait = time.Second

// heard returns the function that takes what other nodes broadcast. Each partition has a goroutine in tasks that shows it in its
// order.
func (n *Node) heard(ctx context.Context, tasks *sync.WaitGroup, t Transport) func(data []byte) {
	queues := make([]chan *sentPreviews, len(n.parts))
	for i, p := range n.parts {
		queue := make(chan *sentPreviews, 1024)
		queues[i] = queue
		tasks.Go(func() {
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
		})
	}
	return func(data []byte) {
		switch {
		case len(data) > 0 && data[0] == msgPeer:
			if n.peer != nil {
				n.peer.Heard(data[1:])
			}
			return
		case len(data) > 0 && data[0] == msgDialects:
			if n.opt.ToDialects != nil {
				n.opt.ToDialects(data[1:])
			}
			return
		case len(data) > 0 && data[0] == msgStored:
			if s, ok := readStored(data[1:]); ok && s.partition < len(n.parts) {
				n.parts[s.partition].unstored.stored(&s)
				return
			}
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

// readBlocks returns the pieces of encoded blocks.
func readBlocks(b []byte) (pieces []chat.Preview, err error) {
	var blocks []sentBlock
	err = json.Unmarshal(b, &blocks)
	for _, b := range blocks {
		pieces = append(pieces, b.pieces()...)
	}
	return pieces, err
}

// sentBlock is an unfinished block. Clients that resume by counting rely on its pieces being the same at all nodes.
type sentBlock struct {
	chat.Block
	Ends []chat.End `json:"ends"`
}

func sentBlocks(blocks []chat.Block) []sentBlock {
	out := make([]sentBlock, len(blocks))
	for i, b := range blocks {
		out[i] = sentBlock{b, b.Ends}
	}
	return out
}

// pieces returns the block as the pieces in which it was written.
func (b *sentBlock) pieces() (out []chat.Preview) {
	begin := 0
	for _, end := range b.Ends {
		if end.Bytes > begin && end.Bytes <= len(b.Text) {
			out = append(out, chat.Preview{Block: b.ID, Offset: begin, End: end.Bytes, Text: b.Text[begin:end.Bytes], Kind: b.Kind, Workstream: b.Workstream, Turn: b.Turn, At: end.At})
			begin = end.Bytes
		}
	}
	return out
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
	have := map[chat.BlockID]int{}
	for _, b := range n.opt.Hub.Blocks(id) {
		have[b.ID] = len(b.Text)
	}
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
