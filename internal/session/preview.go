package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// Preview sends pieces of unfinished blocks to readers. The pieces are not in the log,
// but they survive a kill of the process. A repeated piece is skipped. A piece that
// leaves a gap is refused, and the error has the number of bytes the server has.
func (s *Sessions) Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error {
	if len(pieces) > 0 && !s.elsewhere(ctx, id) {
		one := []core.SessionPieces{{Session: id, Pieces: slices.Clone(pieces)}}
		if s.PreviewAll(ctx, c, one) == 1 {
			return one[0].Err
		}
	}
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
	if s.elsewhere(ctx, id) {
		q := &call{Method: callPreview, Session: id, Caller: c, Pieces: make([]sentPiece, len(pieces))}
		for i := range pieces {
			q.Pieces[i] = sentPiece{pieces[i], pieces[i].Attempt, pieces[i].AtEnd}
		}
		get := s.send(ctx, q)
		return func() error {
			_, err := get()
			return err
		}, nil
	}
	if err := s.countWritten(c, costOfPieces(pieces)); err != nil {
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
	written := []core.SessionPieces{{Session: r.id, Pieces: p.pieces}}
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
	now    chat.At
	lastAt chat.At
	blocks []openBlock // the open blocks with the pieces of the batch
	pieces []chat.Preview
	cost   int64 // memory that the pieces take, in bytes

	entries []core.Entry // memory for publish
}

// collect returns an empty previewing. The caller handles the queue; the previewing is
// valid until its next call.
func (r *sequencer) collect(ctx context.Context) (*previewing, error) {
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	r.findBlocks()
	p := &r.previewing
	*p = previewing{order: r, now: r.sessions.now(), lastAt: r.lastAt, blocks: append(p.blocks[:0], r.blocks...), entries: p.entries[:0]}
	return p, nil
}

// findBlocks reads the open blocks from the hub, unless the last request was a preview.
func (r *sequencer) findBlocks() {
	if r.blocksKnown {
		return
	}
	r.blocksKnown = true
	var blocks []openBlock
	for _, b := range r.sessions.live.Blocks(r.id) {
		n, measured := len(b.Text), -1
		for i := range r.blocks {
			if old := &r.blocks[i]; old.id == b.ID && old.len == n {
				measured = old.json
			}
		}
		if measured < 0 {
			measured = json.StringLen(b.Text)
		}
		blocks = append(blocks, openBlock{b.ID, b.Kind, b.Turn, n, n, measured})
	}
	r.blocks = blocks
}

// publish sends the pieces to readers when they are written.
func (p *previewing) publish() {
	r := p.order
	for i := range p.pieces {
		p.entries = append(p.entries, core.Entry{At: p.pieces[i].At, Piece: &p.pieces[i]})
	}
	r.sessions.publish(r.id, p.entries)
	clear(p.entries)
	r.setOpen(&r.state.Session, r.open.Load()+p.cost)
	for i := range p.blocks {
		p.blocks[i].shown = p.blocks[i].len
	}
	r.blocks, p.blocks, p.pieces = p.blocks, r.blocks, nil
}

// openBlock describes an open block. The sequencer keeps it from one preview to the next,
// so that a long block is neither copied nor measured again for each small piece.
type openBlock struct {
	id    chat.BlockID
	kind  chat.BlockKind
	turn  chat.TurnID
	shown int // bytes of text that readers have received
	len   int // bytes of text, with the pieces of the batch
	json  int // bytes of that text encoded as JSON
}

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
			p.pieces, p.cost = p.pieces[:before], 0
			p.blocks = append(p.blocks[:0], p.order.blocks...)
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
	if err := setTurn(c, st, &piece); err != nil {
		return err
	}
	b, err := p.openFor(&piece)
	if err != nil {
		return err
	}
	if err := p.cutShown(&b, &piece); err != nil || piece.End <= b.len {
		return err // nil for a repeated piece
	}
	if b.json+json.StringLen(piece.Text) > chat.MaxBlockJSON {
		return chat.Errorf(chat.TooLarge, "a block has at most %d KiB as JSON: finish it with agent.text and continue in a new one", chat.MaxBlockJSON>>10)
	}
	if err := p.order.mayOpen(&st.Session, p.cost+pieceCost+int64(len(piece.Text))); err != nil {
		return err
	}
	now := p.now
	if whole := now - now%1000; whole == core.After(p.lastAt, whole) {
		// Prefer a whole millisecond if it is free, for dialects that send the position
		// of every piece in milliseconds.
		now = whole
	}
	p.lastAt = core.After(p.lastAt, now)
	piece.At = p.lastAt
	p.pieces = append(p.pieces, piece)
	p.countPiece(&piece)
	return nil
}

// setTurn finds the turn that a piece belongs to and sets its turn and workstream. It refuses a piece of a turn that has ended or that
// is not the caller's, and one of a block that is finished.
func setTurn(c chat.Caller, st *chat.State, piece *chat.Preview) error {
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
	return nil
}

// openFor returns the block that a piece continues, or the new one that it begins.
func (p *previewing) openFor(piece *chat.Preview) (openBlock, error) {
	b := openBlock{id: piece.Block, kind: piece.Kind, turn: piece.Turn}
	if open := p.block(piece.Block); open != nil {
		b = *open
	} else if len(p.blocks) >= maxOpen {
		return b, chat.Errorf(chat.SlowDown, "%d blocks are being written in this session already; finish one first", maxOpen)
	}
	if b.kind != piece.Kind || b.turn != piece.Turn {
		return b, chat.Errorf(chat.Conflict, "block %q was begun in another turn or as another kind (%s); use a block id of its own", string(piece.Block), b.kind)
	}
	return b, nil
}

// cutShown removes the beginning of a piece that the block has already. It refuses a piece that leaves a gap, or that differs from
// what was shown. A piece without anything new stays as it is.
func (p *previewing) cutShown(b *openBlock, piece *chat.Preview) error {
	have := b.len
	if piece.AtEnd {
		piece.Offset, piece.End, piece.AtEnd = have, have+len(piece.Text), false
	}
	if piece.Offset > have {
		return chat.Errorf(chat.Invalid, "the piece begins at byte %d, but the server has only %d bytes of block %q; send from there", piece.Offset, have, string(piece.Block)).
			With("have", have).WithReason(chat.PreviewOffset)
	}
	if p.contradicts(b, piece) {
		return chat.Errorf(chat.Conflict, "the piece differs from the text that was shown of block %q; finish the block as it is and continue in a new one", string(piece.Block)).
			With("have", have).WithReason(chat.PreviewOffset)
	}
	if cut := have - piece.Offset; cut > 0 && piece.End > have {
		if piece.Text[cut]&0xc0 == 0x80 {
			return chat.Errorf(chat.Invalid, "the piece overlaps what is there in the middle of a character; send from byte %d", have).
				With("have", have).WithReason(chat.PreviewOffset)
		}
		piece.Text, piece.Offset = piece.Text[cut:], have
	}
	return nil
}

// contradicts reports whether a piece differs from text that readers have received, or from an earlier piece of the batch.
func (p *previewing) contradicts(b *openBlock, piece *chat.Preview) bool {
	if piece.Offset >= b.len {
		return false
	}
	if both := min(piece.End, b.shown); piece.Offset < both && !strings.HasPrefix(p.text(b)[piece.Offset:], piece.Text[:both-piece.Offset]) {
		return true
	}
	return slices.ContainsFunc(p.pieces, func(q chat.Preview) bool {
		from, to := max(q.Offset, piece.Offset), min(q.End, piece.End)
		return q.Block == piece.Block && from < to && q.Text[from-q.Offset:to-q.Offset] != piece.Text[from-piece.Offset:to-piece.Offset]
	})
}

// block returns an open block, with the pieces of the batch, or nil if there is none. The
// result is valid until the next piece is counted.
func (p *previewing) block(id chat.BlockID) *openBlock {
	for i := range p.blocks {
		if p.blocks[i].id == id {
			return &p.blocks[i]
		}
	}
	return nil
}

// text returns the text of a block that readers have received.
func (p *previewing) text(b *openBlock) string {
	return blockIn(p.order.sessions.live.Blocks(p.order.id), b.id).Text
}

// countPiece updates the block and the counters for an added piece.
func (p *previewing) countPiece(piece *chat.Preview) {
	b := p.block(piece.Block)
	if b == nil {
		p.blocks = append(p.blocks, openBlock{id: piece.Block, kind: piece.Kind, turn: piece.Turn})
		b = &p.blocks[len(p.blocks)-1]
	}
	b.len = piece.End
	p.cost += pieceCost + int64(len(piece.Text))
	b.json += json.StringLen(piece.Text)
}
