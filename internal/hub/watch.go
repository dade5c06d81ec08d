package hub

import (
	"context"
	"errors"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// Watch yields what happens in a session after the start, in order and without
// end: see the package comment for what is promised. The first batch is empty
// and carries the starting cursor and the last sequence. When a reader has all
// there is, it gets a batch with Live set, which may be empty. After from.Idle
// without anything it gets an empty batch with Idle set.
//
// The loop ends when ctx ends or the caller breaks it; otherwise an error is
// yielded once, as the last thing: Gone for a cursor beyond the log or an erased
// session, Unavailable after Close, or what the log answered.
//
// enc may be nil; then batches carry entries, for dialects whose encoding
// depends on the reader. The work is done in the goroutine of the caller.
func (h *Hub) Watch(ctx context.Context, id chat.SessionID, from Start, enc Encoding) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		r, err := h.begin(ctx, id, &from, enc)
		if r.topic != nil {
			defer h.leave(r.topic, r)
		}
		r.loop(ctx, yield, err)
	}
}

// loop goes on until the reader ends, or is let go. A reader spends its life in
// wait, on a stack that stays with it. So whatever needs more of it is called, and
// has returned by then.
func (r *reader) loop(ctx context.Context, yield func(Batch, error) bool, err error) (letGo bool) {
	for ctx.Err() == nil {
		switch {
		case err == errLetGo:
			return true
		case err != nil:
			r.end(yield, err)
			return false
		case r.full:
			if err = r.check(); err == nil && !r.give(yield) {
				return false
			}
		case r.waits:
			r.waits = false
			err = r.wait(ctx)
		default:
			err = r.advance(ctx)
		}
	}
	return err == errLetGo
}

// begin makes a reader whose first batch is for the hello.
//
//go:noinline
func (h *Hub) begin(ctx context.Context, id chat.SessionID, from *Start, enc Encoding) (*reader, error) {
	r := &reader{hub: h, enc: enc, byPosition: from.ByPosition, idle: from.Idle, guard: from.Guard, wake: make(chan struct{}, 1), parked: -1}
	err := r.start(ctx, id, from.Cursor)
	r.offer(Batch{Cursor: r.has(), Last: r.last})
	return r, err
}

// offer makes a batch the next to be yielded.
func (r *reader) offer(b Batch) { r.batch, r.full = b, true }

// check asks whether the reader may go on.
func (r *reader) check() error {
	if r.guard == nil {
		return nil
	}
	return r.guard()
}

// give yields the batch and reports whether the reader wants more.
//
//go:noinline
func (r *reader) give(yield func(Batch, error) bool) bool {
	r.full = false
	more := yield(r.batch, nil)
	r.release()
	return more
}

// advance takes the next batch, or has the reader wait.
//
//go:noinline
func (r *reader) advance(ctx context.Context) error {
	b, waits, err := r.next(ctx)
	if err == nil && !waits {
		r.offer(b)
	}
	r.waits = waits
	return err
}

// end yields the last thing a reader gets.
//
//go:noinline
func (r *reader) end(yield func(Batch, error) bool, err error) {
	yield(Batch{Cursor: r.cursor}, r.goodbye(err))
}

// start finds the topic, waits until it is warm and settles the cursor.
func (r *reader) start(ctx context.Context, id chat.SessionID, from *chat.Cursor) error {
	if from != nil {
		r.cursor = *from
		r.own()
	}
	t, err := r.hub.enter(id, r, r.enc)
	if err != nil {
		return err
	}
	r.topic = t
	if err := r.hub.ready(ctx, t); err != nil {
		return err
	}
	t.mu.Lock()
	r.last = t.last()
	t.mu.Unlock()
	if from == nil {
		r.cursor.Seq = r.last
		return nil
	}
	if from.Seq <= r.last {
		return nil
	}
	return r.hub.stored(ctx, id, from.Seq)
}

// stored refuses a number that is not in the log. Somebody may have read an event
// from there that is published only in a moment; such a reader waits for it. Inlined,
// the record would be part of every reader's stack.
//
//go:noinline
func (h *Hub) stored(ctx context.Context, id chat.SessionID, seq chat.Seq) error {
	rec, err := h.journal.Record(ctx, id)
	if err != nil {
		return err
	}
	if seq > rec.Last {
		return chat.Errorf(chat.Gone, "the cursor %d is beyond the last event %d: the log is not the one it came from; load the session again", seq, rec.Last).
			With("last", rec.Last)
	}
	return nil
}

// goodbye adds the cursor to an error after which the reader should come back.
func (r *reader) goodbye(err error) error {
	if e, ok := errors.AsType[*chat.Error](err); ok && e.Code == chat.Unavailable {
		return e.With("cursor", r.cursor.String())
	}
	return err
}
