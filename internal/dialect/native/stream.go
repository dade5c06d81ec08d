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
	// Errors of the session and the cursor are answered with a status, before the
	// stream begins.
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
	f := &reader{Dialect: d, caller: c, id: sess.ID, start: start}
	err = wire.ServeSSE(w, r, wire.SSEOptions{Gzip: true, Zstd: true}, d.opt.Conns, f.run)
	if errors.Is(err, wire.ErrShutdown) {
		return errShutdown()
	}
	return err
}

// reader is one reader of a stream. It waits with a small stack: the work is done in
// calls that are not inlined.
type reader struct {
	*Dialect
	s      *wire.Stream
	caller chat.Caller
	id     chat.SessionID
	start  chat.Start
	begun  bool
}

// run is the write loop. The hub encodes once for all readers; a batch has everything
// that this reader lacks.
func (f *reader) run(ctx context.Context, s *wire.Stream) error {
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
func (f *reader) watch(ctx context.Context) iter.Seq2[chat.Batch, error] {
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
func (f *reader) pass(ctx context.Context, b *chat.Batch) error {
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

// bye says why the stream ends, and whether to reconnect.
//
//go:noinline
func (f *reader) bye(ctx context.Context, err error) error {
	return f.own(context.WithoutCancel(ctx), frameSSE("bye", "", byeFrame{edge.InfoOf(err), retryable(chat.CodeOf(err))}))
}

// own writes a frame for this reader only.
func (f *reader) own(ctx context.Context, frame []byte) error {
	if f.s.Coding() == wire.Gzip {
		return f.s.WriteBlocks(ctx, wire.CompressBlock(nil, frame))
	}
	return f.s.Write(ctx, frame)
}
