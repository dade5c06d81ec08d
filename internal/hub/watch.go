package hub

import (
	"context"
	"errors"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// Watch yields the events and pieces of a session after the start; see the package
// comment for the guarantees. The first batch is empty and carries the starting cursor.
// When a reader has all there is, it gets a batch with Live set, which may be empty. The
// last thing that is yielded is an error, unless ctx ends or the caller breaks the loop:
// Gone for a cursor beyond the log or an erased session, Unavailable after Close, or an
// error of the log. Without enc, batches carry entries.
func (h *Hub) Watch(ctx context.Context, id chat.SessionID, from Start, enc Encoding) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		r, err := h.begin(ctx, id, &from, enc)
		if r.topic != nil {
			defer h.leave(r.topic, r)
		}
		r.loop(ctx, yield, err)
	}
}

// loop runs until the reader ends or is detached. A reader spends most of its time in
// wait. So that its stack stays small, everything that needs more of it is a call that
// has returned before wait, and must not be inlined.
func (r *reader) loop(ctx context.Context, yield func(Batch, error) bool, err error) (detach bool) {
	for ctx.Err() == nil {
		switch {
		case err == errDetached:
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
	return err == errDetached
}

// begin returns a reader whose first batch carries the starting cursor.
//
//go:noinline
func (h *Hub) begin(ctx context.Context, id chat.SessionID, from *Start, enc Encoding) (*reader, error) {
	r := &reader{hub: h, enc: enc, byPosition: from.ByPosition, everyPiece: from.EveryPiece, idle: from.Idle, guard: from.Guard, wake: make(chan struct{}, 1), parked: -1}
	err := r.start(ctx, id, from.Cursor)
	r.offer(Batch{Cursor: r.cursorCopy(), Last: r.last})
	return r, err
}

// offer sets the batch that is yielded next.
func (r *reader) offer(b Batch) { r.batch, r.full = b, true }

// check returns an error when the reader may not continue.
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

// advance offers the next batch, or sets waits.
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

// end yields the last error.
//
//go:noinline
func (r *reader) end(yield func(Batch, error) bool, err error) {
	yield(Batch{Cursor: r.cursor}, r.withCursor(err))
}

// start registers the reader, waits until the topic is warm and sets the cursor.
func (r *reader) start(ctx context.Context, id chat.SessionID, from *chat.Cursor) error {
	if from != nil {
		r.cursor = *from
		r.copyMarks()
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

// stored returns Gone for a sequence that is not in the log. A client may have read an
// event from the log that is not published yet; its reader waits. Inlined, the record
// would be part of every reader's stack.
//
//go:noinline
func (h *Hub) stored(ctx context.Context, id chat.SessionID, seq chat.Seq) error {
	rec, err := h.journal.Record(ctx, id)
	if err != nil {
		return err
	}
	if seq > rec.Last {
		return chat.Errorf(chat.Gone, "the cursor %d is beyond the last event %d: the session was replaced; load it again", seq, rec.Last).
			With("last", rec.Last)
	}
	return nil
}

// withCursor adds the cursor to an error after which the client should resume.
func (r *reader) withCursor(err error) error {
	if e, ok := errors.AsType[*chat.Error](err); ok && e.Code == chat.Unavailable {
		return e.With("cursor", r.cursor.String())
	}
	return err
}
