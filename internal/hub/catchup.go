package hub

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// takePast takes events from the tail.
func (r *reader) takePast() Batch {
	t := r.topic
	from, limit := uint64(r.cursor.Seq)+1, t.events.end()
	if r.byPosition {
		if at := firstMissingAt(t.open, &r.cursor); at != 0 {
			if before := t.events.at(from).At; at < before {
				return r.pieces(r.missing(t.open.visible(), true, before))
			}
			for limit > from+1 && t.events.at(limit-1).At > at {
				limit--
			}
		}
	}
	if len(r.cursor.Blocks) > 0 {
		// The reader has parts of blocks that may be open. The cursors in its bytes
		// must include them; the shared cursors do not.
		own := slices.Clone(t.events.slice(from, min(limit, from+maxOwn)))
		for i := range own {
			r.cursor.PassEvent(own[i].Fact.Seq, own[i].Block)
			own[i].Cursor = r.cursorCopy()
		}
		return r.pieces(own)
	}
	b, next, private := r.cut(&t.events, false, from, limit)
	r.cursor.Seq = chat.Seq(next - 1)
	b.Cursor, b.Last = r.cursorCopy(), r.last
	t.mu.Unlock()
	r.encode(&b, private)
	return b
}

// catchUp is for a reader that is behind the tail: it grows the tail when the events
// that it lacks fit into it, else it reads a page from the log.
func (r *reader) catchUp(ctx context.Context) (b Batch, done bool, err error) {
	t, h := r.topic, r.hub
	first := t.events.first
	room, bytes := h.opt.Tail-len(t.events.ents), h.opt.TailBytes-t.events.bytes
	if f := t.growing; f != nil {
		t.mu.Unlock()
		select {
		case <-f.done:
			return b, false, f.err
		case <-ctx.Done():
			return b, false, ctx.Err()
		}
	}
	if !t.complete && room > 0 && bytes > 0 && uint64(r.cursor.Seq)+1+uint64(room) >= first {
		f := &fill{done: make(chan struct{})}
		t.growing = f
		t.mu.Unlock()
		return b, false, h.growTail(ctx, t, f, first, room, bytes)
	}
	var open []chat.Block
	if r.byPosition {
		open = t.open.visible()
	}
	t.mu.Unlock()
	b, err = r.page(ctx, first, open)
	return b, true, err
}

// page reads events between the reader and the tail from the log. It is called
// without the lock.
func (r *reader) page(ctx context.Context, before uint64, open []chat.Block) (Batch, error) {
	h, id, after := r.hub, r.topic.id, r.cursor.Seq
	facts, _, err := h.journal.Read(ctx, id, chat.Range{After: after, Before: chat.Seq(before), MaxBytes: h.opt.PageBytes})
	if err != nil {
		return Batch{}, fmt.Errorf("read %s after %d: %w", id, after, err)
	}
	h.count.pages.Add(1)
	if len(facts) == 0 {
		// The session was erased meanwhile, or is damaged: Record returns which.
		if _, err := h.journal.Record(ctx, id); err != nil {
			return Batch{}, err
		}
		return Batch{}, errHole(id, after+1)
	}
	entries := make([]Entry, 0, len(facts))
	for _, f := range facts {
		if f.Seq != r.cursor.Seq+1 {
			return Batch{}, errHole(id, r.cursor.Seq+1)
		}
		e, err := entryOf(f)
		if err != nil {
			return Batch{}, fmt.Errorf("read %s: %w", id, err)
		}
		e.Session = id
		if len(open) > 0 {
			entries = append(entries, r.missing(open, true, e.At)...)
		}
		r.cursor.PassEvent(f.Seq, e.Block)
		e.Cursor = r.cursorCopy()
		entries = append(entries, e)
	}
	b := Batch{Cursor: r.cursorCopy(), Last: r.last}
	if r.codec == nil {
		b.Entries = entries
	} else {
		r.encode(&b, entries)
	}
	return b, nil
}
