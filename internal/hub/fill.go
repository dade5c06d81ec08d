package hub

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/freshstack"
)

// A topic is warm when its tail has been read from the log. No event may be missing
// between what was read and what is published, and none may come twice. This holds
// because
//
//   - from the moment the fill begins, everything that is published is added to the
//     tail;
//   - what was published before that moment was durable before it, so the read, which
//     begins later, finds it;
//   - an event that is both read and published is recognised by its sequence.
//
// The read may also find events that are durable and will be published soon. Readers
// get them from the tail at once, so
//
//   - blocks that they finish are closed at once. The read goes back as far as such an
//     event can be: to the last one that was published, or to the beginning of the
//     oldest open block;
//   - pieces that are published late, with positions before the last event found, are
//     hidden from readers until that event is published too (see unpublished): only then is
//     it known whether their block is still open.

// firstRead is how many events a fill reads. Most readers begin at the last event; the
// rest of the tail is read when a reader needs it (see growTail).
const (
	firstRead      = 64
	firstReadBytes = 64 << 10
)

// ready waits until the topic is warm. The first caller fills it.
func (h *Hub) ready(ctx context.Context, t *topic) error {
	t.mu.Lock()
	if t.ended != nil {
		defer t.mu.Unlock()
		return t.ended
	}
	f := t.fill
	if f == nil {
		f = &fill{done: make(chan struct{})}
		t.fill = f
		t.events.restart(0)
		t.mu.Unlock()
		// Other readers wait for it too: it must not end with this reader's context.
		freshstack.Run(func() { h.warmUp(context.WithoutCancel(ctx), t, f) })
	} else {
		t.mu.Unlock()
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// warmUp reads the tail from the log.
func (h *Hub) warmUp(ctx context.Context, t *topic, f *fill) {
	found, last, err := h.readTail(ctx, t.id, 0, h.first, firstReadBytes)
	t.mu.Lock()
	defer t.mu.Unlock()
	for err == nil && t.lacksFinish(found) {
		before := found[0].Fact.Seq
		t.mu.Unlock()
		var older []Entry
		older, _, err = h.readTail(ctx, t.id, before, h.first, firstReadBytes)
		if len(older) == 0 && err == nil {
			err = errHole(t.id, before-1)
		}
		found = append(older, found...)
		t.mu.Lock()
	}
	defer close(f.done)
	f.over = true
	if err != nil {
		f.err = err
		if t.fill == f {
			t.dropTail()
		}
		return
	}
	if len(t.events.ents) == 0 {
		t.events.restart(uint64(last) + 1)
		if n := len(found); n > 0 {
			t.unpublished = unpublished{last, found[n-1].At}
		}
	}
	for len(found) > 0 && uint64(found[len(found)-1].Fact.Seq) >= t.events.first {
		found = found[:len(found)-1] // published meanwhile
	}
	if n := len(found); n > 0 && uint64(found[n-1].Fact.Seq)+1 == t.events.first {
		t.events.prepend(found)
		for i := range found {
			// An older event may have finished an earlier block with that id.
			if b := t.open.find(found[i].Block); b != nil && len(b.Ends) > 0 && found[i].At > b.Ends[0].At {
				t.open.finish(found[i].Block)
			}
		}
	}
	t.trim(h)
}

// lacksFinish reports whether an event older than those found could finish an
// open block without having been published.
func (t *topic) lacksFinish(found []Entry) bool {
	if len(found) == 0 || len(t.events.ents) > 0 {
		return false
	}
	oldest := &found[0]
	if oldest.Fact.Seq <= t.published+1 {
		return false
	}
	for _, b := range t.open {
		if b.Ends[0].At < oldest.At {
			return true
		}
	}
	return false
}

// growTail reads the rest of what the tail can hold, once for all readers that are
// that far behind. The caller then looks at the tail again.
func (h *Hub) growTail(ctx context.Context, t *topic, f *fill, before uint64, room, bytes int) error {
	older, _, err := h.readTail(context.WithoutCancel(ctx), t.id, chat.Seq(before), room, bytes)
	t.mu.Lock()
	t.growing, t.complete = nil, err == nil
	if err == nil && len(older) > 0 && t.events.first == before {
		t.events.prepend(older)
		t.trim(h)
	}
	f.err = err
	close(f.done)
	t.mu.Unlock()
	return err
}

// readTail reads the newest events before a sequence, all if it is 0, and
// returns them in order with the sequence of the last.
func (h *Hub) readTail(ctx context.Context, id chat.SessionID, before chat.Seq, events, bytes int) ([]Entry, chat.Seq, error) {
	last := chat.Seq(0)
	if before == 0 {
		rec, err := h.journal.Record(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		last = rec.Last
	}
	facts, _, err := h.journal.Read(ctx, id, chat.Range{Before: before, Limit: events, MaxBytes: bytes, Desc: true})
	if err != nil {
		return nil, 0, fmt.Errorf("read the tail of %s: %w", id, err)
	}
	h.count.pages.Add(1)
	slices.Reverse(facts)
	found := make([]Entry, len(facts))
	for i, f := range facts {
		if i > 0 && f.Seq != facts[i-1].Seq+1 {
			return nil, 0, errHole(id, facts[i-1].Seq+1)
		}
		if found[i], err = entryOf(f); err != nil {
			return nil, 0, fmt.Errorf("read the tail of %s: %w", id, err)
		}
		found[i].Session = id
		last = max(last, f.Seq)
	}
	return found, last, nil
}

func errHole(id chat.SessionID, seq chat.Seq) error {
	return fmt.Errorf("session %s: event %d is not in the log", id, seq)
}
