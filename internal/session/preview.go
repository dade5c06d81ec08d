package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Preview shows pieces of blocks that are being written. They survive a kill of
// the process and are not in the log. A piece that is known already is skipped;
// one that leaves a gap is refused, and the error says what is there.
func (s *Sessions) Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error {
	wait, err := s.PreviewLater(ctx, c, id, pieces)
	if err != nil {
		return err
	}
	return wait()
}

// PreviewLater gives the pieces their place in the session's order and returns
// at once. The caller must call wait, as with AppendLater; it does what Preview
// does.
func (s *Sessions) PreviewLater(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) (wait func() error, err error) {
	if !c.Has(chat.ScopeAgent) {
		return nil, chat.Errorf(chat.Denied, "sending previews needs the scope agent")
	}
	if len(pieces) == 0 {
		return func() error { return nil }, nil
	}
	pieces = slices.Clone(pieces)
	for i := range pieces {
		if err := pieces[i].Settle(); err != nil {
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

// preview writes the pieces of the batch that are new and fit, then shows them.
func (r *sequencer) preview(ctx context.Context, batch []*request) {
	if err := r.load(ctx); err != nil {
		fail(batch, err)
		return
	}
	p := previewing{order: r, blocks: r.sessions.live.Blocks(r.id), now: r.sessions.now(), lastAt: r.lastAt, have: map[chat.BlockID]*begun{}}
	for _, req := range batch {
		req.err = p.take(req)
	}
	if len(p.pieces) == 0 {
		return
	}
	r.lastAt = p.lastAt // also when the write fails: part of it may be in the file
	if err := r.sessions.log.WritePreviews(ctx, r.id, p.pieces); err != nil {
		fail(batch, fmt.Errorf("preview in %s: %w", r.id, err))
		return
	}
	entries := make([]chat.Entry, len(p.pieces))
	for i := range p.pieces {
		entries[i] = chat.Entry{At: p.pieces[i].At, Piece: &p.pieces[i]}
	}
	r.sessions.publish(r.id, entries)
	r.setOpen(&r.state.Session, r.open.Load()+p.cost)
	p.keep()
}

// previewing collects what a batch of previews adds.
type previewing struct {
	order  *sequencer
	blocks []chat.Block // those being written, before this batch
	now    chat.At
	lastAt chat.At
	have   map[chat.BlockID]*begun // blocks this batch touches
	fresh  int                     // blocks this batch begins
	pieces []chat.Preview
	cost   int64 // of the pieces, in memory
}

// begun is what is known of an open block, this batch included.
type begun struct {
	kind chat.BlockKind
	turn chat.TurnID
	text string // what readers have; the batch adds to len and json
	len  int
	json int
}

// measured is what a block of so many bytes takes as JSON. It is kept, because
// a long block comes in many small pieces.
type measured struct{ bytes, json int }

// maxOpen bounds the blocks that are written at once in a session: a cursor
// names all of them.
const maxOpen = 64

func (p *previewing) take(req *request) error {
	st := p.order.state
	if err := req.caller.May(&st.Session, chat.Answerer); err != nil {
		return err
	}
	taken := len(p.pieces)
	for i, piece := range req.pieces {
		if err := p.one(req.caller, st, piece); err != nil {
			// Nothing of the request is taken: begin again without it.
			p.pieces, p.fresh, p.cost = p.pieces[:taken], 0, 0
			clear(p.have)
			for j := range p.pieces {
				p.grow(&p.pieces[j])
			}
			if i > 0 {
				err = p.unshown(piece.Block, err)
			}
			return at(i, len(req.pieces), err)
		}
	}
	return nil
}

// unshown corrects what a refusal says of a block: pieces of the same request
// that came before the refused one were not shown either.
func (p *previewing) unshown(block chat.BlockID, err error) error {
	e := chat.Public(err)
	if e.Reason != chat.PreviewOffset {
		return err
	}
	have := 0
	if b := p.block(block); b != nil {
		have = b.len
	}
	e = e.With("have", have)
	e.Msg = strings.TrimSuffix(e.Msg, "; send from there") + fmt.Sprintf(" (an array is one unit: nothing of it was shown, %d bytes of the block are there)", have)
	return e
}

func (p *previewing) one(c chat.Caller, st *chat.State, piece chat.Preview) error {
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
		if p.fresh+len(p.blocks) >= maxOpen {
			return chat.Errorf(chat.SlowDown, "%d blocks are being written in this session already; finish one first", maxOpen)
		}
		b = &begun{kind: piece.Kind, turn: piece.Turn}
	}
	if b.kind != piece.Kind || b.turn != piece.Turn {
		return chat.Errorf(chat.Conflict, "block %q was begun in another turn or as another kind (%s); use a block id of its own", string(piece.Block), b.kind)
	}
	have := b.len
	if piece.Offset > have {
		return chat.Errorf(chat.Invalid, "the piece begins at byte %d, but only %d bytes of block %q are there; send from there", piece.Offset, have, string(piece.Block)).
			With("have", have).WithReason(chat.PreviewOffset)
	}
	if both := min(piece.End, len(b.text)); piece.Offset < both && b.text[piece.Offset:both] != piece.Text[:both-piece.Offset] {
		return chat.Errorf(chat.Conflict, "the piece says something else than what was shown of block %q; finish it as it is and go on in a new one", string(piece.Block)).
			With("have", have).WithReason(chat.PreviewOffset)
	}
	if piece.End <= have {
		return nil // known already
	}
	if cut := have - piece.Offset; cut > 0 {
		if piece.Text[cut]&0xc0 == 0x80 {
			return chat.Errorf(chat.Invalid, "the piece overlaps what is there in the middle of a character; send from byte %d", have).
				With("have", have).WithReason(chat.PreviewOffset)
		}
		piece.Text, piece.Offset = piece.Text[cut:], have
	}
	if b.json+chat.JSONLen(piece.Text) > chat.MaxBlockJSON {
		return chat.Errorf(chat.TooLarge, "a block has at most %d KiB as JSON: finish it with agent.text and go on in a new one", chat.MaxBlockJSON>>10)
	}
	if err := p.order.mayOpen(&st.Session, p.cost+pieceCost+int64(len(piece.Text))); err != nil {
		return err
	}
	now := p.now
	if whole := now - now%1000; whole == chat.After(p.lastAt, whole) {
		now = whole // a whole millisecond when no other has it: dialects that count in them say it with every piece
	}
	p.lastAt = chat.After(p.lastAt, now)
	piece.At = p.lastAt
	p.pieces = append(p.pieces, piece)
	p.grow(&piece)
	return nil
}

// block returns what is known of a block, nil if it is new.
func (p *previewing) block(id chat.BlockID) *begun {
	if b, ok := p.have[id]; ok {
		return b
	}
	open := blockIn(p.blocks, id)
	if open == nil {
		return nil
	}
	b := &begun{open.Kind, open.Turn, open.Text, len(open.Text), p.order.measure(id, open.Text)}
	p.have[id] = b
	return b
}

func (p *previewing) grow(piece *chat.Preview) {
	b := p.block(piece.Block)
	if b == nil {
		b = &begun{kind: piece.Kind, turn: piece.Turn}
		p.have[piece.Block] = b
		p.fresh++
	}
	b.len = piece.End
	p.cost += pieceCost + int64(len(piece.Text))
	b.json += chat.JSONLen(piece.Text)
}

// keep remembers how large the blocks have become.
func (p *previewing) keep() {
	if len(p.order.sizes) > 2*maxOpen { // mostly blocks that are finished
		p.order.sizes = nil
	}
	if p.order.sizes == nil {
		p.order.sizes = map[chat.BlockID]measured{}
	}
	for id, b := range p.have {
		p.order.sizes[id] = measured{b.len, b.json}
	}
}

// measure returns what an open block takes as JSON.
func (r *sequencer) measure(id chat.BlockID, text string) int {
	if m, ok := r.sizes[id]; ok && m.bytes == len(text) {
		return m.json
	}
	return chat.JSONLen(text)
}
