package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Preview sends pieces of unfinished blocks to readers. The pieces are not in the log,
// but they survive a kill of the process. A repeated piece is skipped. A piece that
// leaves a gap is refused, and the error has the number of bytes the server has.
func (s *Sessions) Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error {
	wait, err := s.PreviewLater(ctx, c, id, pieces)
	if err != nil {
		return err
	}
	return wait()
}

// PreviewLater queues the pieces in the session's order and returns at once. The caller
// must call wait, as with AppendLater; wait returns what Preview would return.
func (s *Sessions) PreviewLater(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) (wait func() error, err error) {
	if !c.Has(chat.ScopeAgent) {
		return nil, chat.Errorf(chat.Denied, "sending previews needs the scope agent")
	}
	if len(pieces) == 0 {
		return func() error { return nil }, nil
	}
	pieces = slices.Clone(pieces)
	for i := range pieces {
		if err := pieces[i].Normalize(); err != nil {
			return nil, at(i, len(pieces), err)
		}
	}
	text := 0
	for i := range pieces {
		text += pieceCost + len(pieces[i].Text)
	}
	if err := s.countWritten(c, text); err != nil {
		return nil, err
	}
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return nil, err
	}
	req := &request{pieces: pieces, caller: c}
	if err := r.join(req); err != nil {
		r.release()
		return nil, err
	}
	return func() error {
		defer r.release()
		return r.finish(ctx, req)
	}, nil
}

// preview writes the new and valid pieces of the batch, then publishes them.
func (r *sequencer) preview(ctx context.Context, batch []*request) {
	p, err := r.collect(ctx)
	if err != nil {
		fail(batch, err)
		return
	}
	for _, req := range batch {
		req.err = p.addRequest(req.caller, req.pieces)
	}
	if len(p.pieces) == 0 {
		return
	}
	r.lastAt = p.lastAt // even if the write fails: part of it may be in the file
	written := []chat.SessionPieces{{Session: r.id, Pieces: p.pieces}}
	r.sessions.log.WritePreviews(ctx, written)
	if err := written[0].Err; err != nil {
		fail(batch, fmt.Errorf("preview in %s: %w", r.id, err))
		return
	}
	p.publish()
}

// previewing collects the pieces that a batch of requests adds.
type previewing struct {
	order  *sequencer
	blocks []chat.Block // the open blocks before this batch
	now    chat.At
	lastAt chat.At
	have   []openBlock // blocks that the batch refers to, with its pieces applied
	room   [1]openBlock
	opened int // number of blocks that the batch opens
	pieces []chat.Preview
	cost   int64 // memory that the pieces take, in bytes
}

// collect returns an empty previewing. The caller handles the queue.
func (r *sequencer) collect(ctx context.Context) (*previewing, error) {
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	p := &previewing{order: r, blocks: r.sessions.live.Blocks(r.id), now: r.sessions.now(), lastAt: r.lastAt}
	p.have = p.room[:0]
	return p, nil
}

// publish sends the pieces to readers when they are written.
func (p *previewing) publish() {
	r := p.order
	entries := make([]chat.Entry, len(p.pieces))
	for i := range p.pieces {
		entries[i] = chat.Entry{At: p.pieces[i].At, Piece: &p.pieces[i]}
	}
	r.sessions.publish(r.id, entries)
	r.setOpen(&r.state.Session, r.open.Load()+p.cost)
	p.saveSizes()
}

// openBlock describes an open block. Pieces of the current batch are counted in len and
// json, but are not part of text.
type openBlock struct {
	id   chat.BlockID
	kind chat.BlockKind
	turn chat.TurnID
	text string // what readers have received
	len  int    // bytes of text, with the batch
	json int    // bytes of text encoded as JSON, with the batch
}

// measured holds the text length of a block and its length as JSON. It is cached, so
// that a long block is not encoded again for each small piece.
type measured struct{ bytes, json int }

// maxOpen bounds the open blocks of a session, because a cursor lists all of them.
const maxOpen = 64

// addRequest adds all pieces of a request, or none of them if one is refused.
func (p *previewing) addRequest(c chat.Caller, pieces []chat.Preview) error {
	st := p.order.state
	if err := c.May(&st.Session, chat.Answerer); err != nil {
		return err
	}
	before := len(p.pieces)
	for i, piece := range pieces {
		if err := p.addPiece(c, st, piece); err != nil {
			// Remove the pieces of this request and recompute the counters.
			p.pieces, p.opened, p.cost = p.pieces[:before], 0, 0
			p.have = p.have[:0]
			for j := range p.pieces {
				p.countPiece(&p.pieces[j])
			}
			if i > 0 {
				err = p.correctOffset(piece.Block, err)
			}
			return at(i, len(pieces), err)
		}
	}
	return nil
}

// correctOffset corrects the number of bytes in a refusal: earlier pieces of the same
// request were not published either, so they must not be counted.
func (p *previewing) correctOffset(block chat.BlockID, err error) error {
	e := chat.Public(err)
	if e.Reason != chat.PreviewOffset {
		return err
	}
	have := 0
	if b := p.block(block); b != nil {
		have = b.len
	}
	e = e.With("have", have)
	e.Msg = strings.TrimSuffix(e.Msg, "; send from there") + fmt.Sprintf(" (with the pieces before it in the array, of which none is shown: send from byte %d)", have)
	return e
}

// addPiece checks one piece and adds the part of it that is new.
func (p *previewing) addPiece(c chat.Caller, st *chat.State, piece chat.Preview) error {
	var t *chat.Turn
	if piece.Turn == "" {
		if t = st.Line(piece.Workstream).Turn; t != nil && !c.MayServe(t.Agent) {
			t = nil
		}
	} else {
		var line string
		if t, line = st.TurnOf(piece.Turn); t == nil {
			return errTurnEnded(piece.Turn)
		}
		if err := mayAct(c, t); err != nil {
			return err
		}
		if piece.Attempt != 0 && piece.Attempt != t.Attempt {
			return errOldAttempt(t, piece.Attempt)
		}
		if piece.Workstream != "" && piece.Workstream != line {
			return errOtherLine(t, piece.Workstream)
		}
		piece.Workstream = line
	}
	finished := st.Finished
	if t != nil {
		piece.Turn, finished = t.ID, t.Finished
	}
	if finished(piece.Block) {
		return errFinished(piece.Block)
	}
	b := p.block(piece.Block)
	if b == nil {
		if p.opened+len(p.blocks) >= maxOpen {
			return chat.Errorf(chat.SlowDown, "%d blocks are being written in this session already; finish one first", maxOpen)
		}
		b = &openBlock{id: piece.Block, kind: piece.Kind, turn: piece.Turn}
	}
	if b.kind != piece.Kind || b.turn != piece.Turn {
		return chat.Errorf(chat.Conflict, "block %q was begun in another turn or as another kind (%s); use a block id of its own", string(piece.Block), b.kind)
	}
	have := b.len
	if piece.Offset > have {
		return chat.Errorf(chat.Invalid, "the piece begins at byte %d, but the server has only %d bytes of block %q; send from there", piece.Offset, have, string(piece.Block)).
			With("have", have).WithReason(chat.PreviewOffset)
	}
	if both := min(piece.End, len(b.text)); piece.Offset < both && b.text[piece.Offset:both] != piece.Text[:both-piece.Offset] {
		return chat.Errorf(chat.Conflict, "the piece differs from the text that was shown of block %q; finish the block as it is and continue in a new one", string(piece.Block)).
			With("have", have).WithReason(chat.PreviewOffset)
	}
	if piece.End <= have {
		return nil // a repeated piece
	}
	if cut := have - piece.Offset; cut > 0 {
		if piece.Text[cut]&0xc0 == 0x80 {
			return chat.Errorf(chat.Invalid, "the piece overlaps what is there in the middle of a character; send from byte %d", have).
				With("have", have).WithReason(chat.PreviewOffset)
		}
		piece.Text, piece.Offset = piece.Text[cut:], have
	}
	if b.json+chat.JSONLen(piece.Text) > chat.MaxBlockJSON {
		return chat.Errorf(chat.TooLarge, "a block has at most %d KiB as JSON: finish it with agent.text and continue in a new one", chat.MaxBlockJSON>>10)
	}
	if err := p.order.mayOpen(&st.Session, p.cost+pieceCost+int64(len(piece.Text))); err != nil {
		return err
	}
	now := p.now
	if whole := now - now%1000; whole == chat.After(p.lastAt, whole) {
		// Prefer a whole millisecond if it is free, for dialects that send the position
		// of every piece in milliseconds.
		now = whole
	}
	p.lastAt = chat.After(p.lastAt, now)
	piece.At = p.lastAt
	p.pieces = append(p.pieces, piece)
	p.countPiece(&piece)
	return nil
}

// block returns an open block, with the pieces of the batch, or nil if there is none.
func (p *previewing) block(id chat.BlockID) *openBlock {
	for i := range p.have {
		if p.have[i].id == id {
			return &p.have[i]
		}
	}
	open := blockIn(p.blocks, id)
	if open == nil {
		return nil
	}
	return p.add(openBlock{id, open.Kind, open.Turn, open.Text, len(open.Text), p.order.measure(id, open.Text)})
}

// add adds a block that the batch refers to. The result is valid until the next call.
func (p *previewing) add(b openBlock) *openBlock {
	p.have = append(p.have, b)
	return &p.have[len(p.have)-1]
}

// countPiece updates the block and the counters for an added piece.
func (p *previewing) countPiece(piece *chat.Preview) {
	b := p.block(piece.Block)
	if b == nil {
		b = p.add(openBlock{id: piece.Block, kind: piece.Kind, turn: piece.Turn})
		p.opened++
	}
	b.len = piece.End
	p.cost += pieceCost + int64(len(piece.Text))
	b.json += chat.JSONLen(piece.Text)
}

// saveSizes caches the sizes of the blocks for the next batch.
func (p *previewing) saveSizes() {
	if len(p.order.sizes) > 2*maxOpen { // most entries are finished blocks
		p.order.sizes = nil
	}
	if p.order.sizes == nil {
		p.order.sizes = map[chat.BlockID]measured{}
	}
	for i := range p.have {
		p.order.sizes[p.have[i].id] = measured{p.have[i].len, p.have[i].json}
	}
}

// measure returns the length of an open block's text as JSON.
func (r *sequencer) measure(id chat.BlockID, text string) int {
	if m, ok := r.sizes[id]; ok && m.bytes == len(text) {
		return m.json
	}
	return chat.JSONLen(text)
}
