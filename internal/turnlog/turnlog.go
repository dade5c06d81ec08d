// Package turnlog follows a session as a sequence of entries that depends on the log alone.
//
// A plain watch gives a late reader a finished block as one event, and a live reader pieces and an event.
// A [Decoder] gives both the same: every event and, before the event that finishes a block, every piece of the block, cut
// where it was cut when it was written, all in order of position. So the n-th entry of a turn is the same for each reader,
// also after a restart of the server, and a dialect whose clients resume by counting needs no storage of its own. [Read] is
// a watch with a Decoder. The other functions find what dialects look for in a log: the turn that answers a message, and
// the prompts that have ended.
//
// There are three limits. A power cut loses pieces that were not synced yet. A block of a workstream that was open when a
// turn of the main line ended may come later among the entries of the next turn for a late reader than for a live one. And on a
// node that does not own the session pieces come beside the log: a live reader may get pieces of a block later than other entries
// that follow them, such as those of a parallel workstream.
package turnlog

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Sessions is what this package uses of package session.
type Sessions interface {
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error]
	Ends(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) ([]chat.End, error)
}

// Start is where a watch whose batches are given to a [Decoder] begins: after an event. Pieces of blocks that were open at that event
// come too. After idle without an entry the watch has an empty batch with Idle set; idle 0 means never.
func Start(after chat.Seq, idle time.Duration) core.Start {
	return core.Start{Cursor: &chat.Cursor{Seq: after}, ByPosition: true, EveryPiece: true, Idle: idle}
}

// Decoder makes the entries of a session from the batches of a watch that begins at [Start]; see the package comment.
type Decoder struct {
	sessions Sessions
	caller   chat.Caller
	id       chat.SessionID
	shown    map[chat.BlockID]int // bytes of the open blocks that were given out or are waiting
	waiting  []core.Entry         // entries of batches before the watch has caught up: pieces between them may follow
	pieces   []Entry              // the last result of TakePieces
}

// NewDecoder returns a decoder for a watch of a session.
func NewDecoder(sessions Sessions, c chat.Caller, id chat.SessionID) *Decoder {
	return &Decoder{sessions: sessions, caller: c, id: id, shown: map[chat.BlockID]int{}}
}

// Take calls take with the entries of a batch, unless it has to wait for those of the next one, until take returns true. live says
// that all stored entries were taken.
func (d *Decoder) Take(ctx context.Context, batch core.Batch, take func(entries []Entry, live bool) (done bool, err error)) (done bool, err error) {
	for i := range batch.Entries {
		if err := d.add(ctx, &batch, i); err != nil {
			return false, err
		}
		if !batch.Live && endsTurn(&batch.Entries[i]) {
			if done, err := d.give(inOrder(d.waiting), false, take); done || err != nil {
				return done, err
			}
		}
	}
	if !batch.Live {
		return false, nil
	}
	entries := batch.Entries
	if len(d.waiting) > 0 {
		entries = inOrder(d.waiting)
	}
	return d.give(entries, true, take)
}

// give calls take with decoded entries. None are waiting then.
func (d *Decoder) give(found []core.Entry, live bool, take func(entries []Entry, live bool) (done bool, err error)) (done bool, err error) {
	entries := make([]Entry, len(found))
	for i := range found {
		if entries[i], err = decode(&found[i]); err != nil {
			return false, err
		}
	}
	d.waiting = d.waiting[:0]
	return take(entries, live)
}

// TakePieces returns the entries of a batch of pieces of a watch that has caught up, valid until the next call. It does no I/O. It
// returns nil, and has taken nothing, if there is anything else in the batch: then Take takes it.
func (d *Decoder) TakePieces(batch core.Batch) []Entry {
	if !batch.Live || len(d.waiting) > 0 {
		return nil
	}
	for i := range batch.Entries {
		if batch.Entries[i].Piece == nil {
			return nil
		}
	}
	d.pieces = d.pieces[:0]
	for i := range batch.Entries {
		e := &batch.Entries[i]
		d.pieces = append(d.pieces, Entry{At: e.At, Piece: e.Piece})
		d.shown[e.Piece.Block] = e.Piece.End
	}
	return d.pieces
}

// add notes what entry i of a batch shows, and adds it to those that wait unless it can be given out with its batch. On a node of a
// cluster an event overtakes pieces of its block whose message was lost, also for a live reader.
func (d *Decoder) add(ctx context.Context, batch *core.Batch, i int) error {
	e := &batch.Entries[i]
	switch {
	case e.Piece != nil:
		d.shown[e.Piece.Block] = e.Piece.End
	case e.Block != "":
		pieces, err := piecesOf(ctx, d.sessions, d.caller, d.id, e, d.shown[e.Block])
		if err != nil {
			return err
		}
		if batch.Live && len(pieces) > 0 && len(d.waiting) == 0 {
			d.waiting = append(d.waiting, batch.Entries[:i]...)
		}
		d.waiting = append(d.waiting, pieces...)
		delete(d.shown, e.Block)
	}
	if !batch.Live || len(d.waiting) > 0 {
		d.waiting = append(d.waiting, *e)
	}
	return nil
}

// endsTurn reports whether an event ends a turn of the main line. No block of the main line is open then, so a reader that
// catches up need not keep more than one turn in memory.
func endsTurn(e *core.Entry) bool {
	return e.Piece == nil && e.Label.Workstream == "" && e.Label.Type == chat.TurnCompleted{}.Type()
}

// inOrder sorts entries by position.
func inOrder(entries []core.Entry) []core.Entry {
	slices.SortStableFunc(entries, func(x, y core.Entry) int { return cmp.Compare(x.At, y.At) })
	return entries
}

// piecesOf returns the pieces of a finished block after the first have bytes of it.
func piecesOf(ctx context.Context, sessions Sessions, c chat.Caller, id chat.SessionID, e *core.Entry, have int) ([]core.Entry, error) {
	ends, err := sessions.Ends(ctx, c, id, e.Fact.Seq)
	if err != nil || len(ends) == 0 || ends[len(ends)-1].Bytes <= have {
		return nil, err
	}
	ev, err := e.Fact.Event()
	if err != nil {
		return nil, err
	}
	p := chat.Preview{Block: e.Block, Workstream: ev.Workstream, Turn: ev.Turn, Kind: chat.TextBlock}
	var text string
	switch b := ev.Body.(type) {
	case chat.AgentText:
		text = b.Text
	case chat.AgentThinking:
		text, p.Kind = b.Text, chat.ThinkingBlock
	}
	var out []core.Entry
	for _, end := range ends {
		if end.Bytes <= have || end.Bytes > len(text) || end.Bytes < len(text) && !utf8.RuneStart(text[end.Bytes]) {
			continue
		}
		one := p
		one.Offset, one.End, one.Text, one.At = have, end.Bytes, text[have:end.Bytes], end.At
		out = append(out, core.Entry{Session: e.Session, At: end.At, Label: chat.Label{Workstream: p.Workstream}, Piece: &one})
		have = end.Bytes
	}
	return out, nil
}
