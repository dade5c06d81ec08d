package native

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
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
	var from chat.Seq
	if start.Cursor != nil {
		from = start.Cursor.Seq
	}
	sess, err := d.opt.Sessions.GetAt(r.Context(), c, sessionID(r), from)
	if err != nil {
		return err
	}
	if from > sess.Last {
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

// reader is one reader of a stream. It waits without a goroutine of its own where the
// connection allows it, else with a small stack: the work is done in calls that are not inlined.
type reader struct {
	*Dialect
	s      *wire.Stream
	ctx    context.Context // of the stream
	caller chat.Caller
	id     chat.SessionID
	start  core.Start
	begun  bool
	err    error // of a write
	said   bool  // bye was sent
	beat   *edge.Heartbeat
}

// run follows the session. The hub encodes once for all readers; a batch has everything
// that this reader lacks.
func (f *reader) run(ctx context.Context, s *wire.Stream) error {
	f.s, f.ctx = s, ctx
	if s.CanDetach() {
		f.opt.Sessions.Follow(ctx, f.caller, f.id, f.start, f.encoding(), f)
		return wire.ErrDetached
	}
	for batch, err := range f.watch(ctx) {
		if !f.Take(batch, err) {
			return f.err
		}
	}
	return f.last()
}

//go:noinline
func (f *reader) watch(ctx context.Context) iter.Seq2[core.Batch, error] {
	return f.opt.Sessions.Watch(ctx, f.caller, f.id, f.start, f.encoding())
}

func (f *reader) encoding() core.Encoding {
	switch f.s.Coding() {
	case wire.Gzip:
		return gzipSSE{}
	case wire.Zstd:
		return zstdSSE{}
	}
	return sse{}
}

// Take writes a batch, or the error that ends the stream; it reports whether to continue.
//
//go:noinline
func (f *reader) Take(b core.Batch, err error) bool {
	if err != nil {
		f.err, f.said = f.bye(f.ctx, err), true
		return false
	}
	f.err = f.pass(f.ctx, &b)
	switch {
	case f.beat != nil && len(b.Bytes) > 0:
		f.beat.Note()
	case f.beat == nil && f.s.CanDetach():
		f.beat = edge.NewHeartbeat(f.opt.Heartbeat, func() { _ = f.ping() }) // after hello; a broken connection ends the context
	}
	return f.err == nil
}

// TryTake writes a batch if the connection takes it without waiting.
func (f *reader) TryTake(b core.Batch) bool {
	if !f.begun || len(b.Bytes) == 0 || f.beat == nil {
		return false
	}
	f.beat.Note()
	if b.Packs == nil {
		return f.s.TryWrite(f.ctx, b.Bytes)
	}
	return len(b.Packs) == 1 && f.s.TryWriteBlock(f.ctx, blocks(b)[0])
}

// Done ends the stream.
func (f *reader) Done() {
	if f.beat != nil {
		f.beat.Stop()
	}
	if f.err == nil && !f.said {
		f.err = f.last()
	}
	f.s.End(f.err)
}

// last says why the stream ends if its context has ended for a reason of the server.
func (f *reader) last() error {
	if errors.Is(context.Cause(f.ctx), wire.ErrShutdown) {
		return f.bye(f.ctx, errShutdown())
	}
	if err := wire.Ended(f.ctx); err != nil {
		return f.bye(f.ctx, err)
	}
	return nil
}

// ping tells an idle client that the connection works.
func (f *reader) ping() error {
	ping := pingFrame{f.now()}
	return f.own(f.ctx, wire.AppendSSE(nil, "ping", "", ping.append(nil)))
}

// pass writes a batch.
//
//go:noinline
func (f *reader) pass(ctx context.Context, b *core.Batch) error {
	switch {
	case !f.begun:
		f.begun = true
		hello := helloFrame{f.id, b.Last, b.Cursor, f.now()}
		return f.own(ctx, wire.AppendSSE(nil, "hello", b.Cursor.String(), hello.append(nil)))
	case b.Idle:
		return f.ping()
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
