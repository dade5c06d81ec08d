package native

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// streamEvents follows a session over Server-Sent Events.
func (d *Dialect) streamEvents(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	start, err := startOf(r)
	if err != nil {
		return err
	}
	// What is wrong with the session or the cursor is told by a status, while
	// that can still be done.
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return err
	}
	if start.Cursor != nil && start.Cursor.Seq > sess.Last {
		return errBeyond(sess.Last)
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return nil
	}
	start.Idle = d.opt.Heartbeat
	f := &follower{Dialect: d, caller: c, id: sess.ID, start: start}
	err = wire.ServeSSE(w, r, wire.SSEOptions{Gzip: true, Zstd: true}, d.opt.Conns, f.run)
	if errors.Is(err, wire.ErrShutdown) {
		return errShutdown()
	}
	return err
}

// follower is one reader of a stream. It is a value of its own, and what it does
// are calls that return, because its stack stays for as long as it waits.
type follower struct {
	*Dialect
	s      *wire.Stream
	caller chat.Caller
	id     chat.SessionID
	start  chat.Start
	begun  bool
}

// run is the write loop. The hub encodes once for all readers; a batch is all
// this one lacks.
func (f *follower) run(ctx context.Context, s *wire.Stream) error {
	f.s = s
	for batch, err := range f.watch(ctx) {
		if err != nil {
			return f.bye(ctx, err)
		}
		if err := f.pass(ctx, &batch); err != nil {
			return err
		}
	}
	if errors.Is(context.Cause(ctx), wire.ErrShutdown) {
		return f.bye(ctx, errShutdown())
	}
	if err := wire.Ended(ctx); err != nil {
		return f.bye(ctx, err)
	}
	return nil
}

//go:noinline
func (f *follower) watch(ctx context.Context) iter.Seq2[chat.Batch, error] {
	var enc chat.Encoding = sse{}
	switch f.s.Coding() {
	case wire.Gzip:
		enc = packedSSE{}
	case wire.Zstd:
		enc = framedSSE{}
	}
	return f.opt.Sessions.Watch(ctx, f.caller, f.id, f.start, enc)
}

// pass writes a batch.
//
//go:noinline
func (f *follower) pass(ctx context.Context, b *chat.Batch) error {
	switch {
	case !f.begun:
		f.begun = true
		hello := helloFrame{f.id, b.Last, b.Cursor, f.now()}
		return f.own(ctx, wire.AppendSSE(nil, "hello", b.Cursor.String(), hello.append(nil)))
	case b.Idle:
		ping := pingFrame{f.now()}
		return f.own(ctx, wire.AppendSSE(nil, "ping", "", ping.append(nil)))
	case len(b.Bytes) == 0:
		return nil
	case b.Packs != nil:
		return f.s.WriteBlocks(ctx, blocks(*b)...)
	}
	return f.s.Write(ctx, b.Bytes)
}

// bye tells the reader why its stream ends, and whether to come back.
//
//go:noinline
func (f *follower) bye(ctx context.Context, err error) error {
	return f.own(context.WithoutCancel(ctx), frameSSE("bye", "", byeFrame{edge.InfoOf(err), retryable(chat.CodeOf(err))}))
}

// own writes a frame that is for this reader alone.
func (f *follower) own(ctx context.Context, frame []byte) error {
	if f.s.Coding() == wire.Gzip {
		return f.s.WriteBlocks(ctx, wire.CompressBlock(nil, frame))
	}
	return f.s.Write(ctx, frame)
}
