package native

import (
	"context"
	"errors"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/wire"
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
	err = wire.ServeSSE(w, r, wire.SSEOptions{Gzip: true}, d.opt.Conns, func(ctx context.Context, s *wire.Stream) error {
		return d.follow(ctx, s, c, sess.ID, start)
	})
	if errors.Is(err, wire.ErrShutdown) {
		return errShutdown()
	}
	return err
}

// follow is the write loop of one reader. The hub encodes once for all readers;
// a batch is all this one lacks.
func (d *Dialect) follow(ctx context.Context, s *wire.Stream, c chat.Caller, id chat.SessionID, start chat.Start) error {
	var enc chat.Encoding = sse{}
	if s.Compressed() {
		enc = packedSSE{}
	}
	own := func(ctx context.Context, frame []byte) error {
		if s.Compressed() {
			return s.WriteBlocks(ctx, wire.CompressBlock(nil, frame))
		}
		return s.Write(ctx, frame)
	}
	first := true
	for batch, err := range d.opt.Sessions.Watch(ctx, c, id, start, enc) {
		switch {
		case err != nil:
			return own(context.WithoutCancel(ctx), frameSSE("bye", "", byeFrame{infoOf(err), retryable(chat.CodeOf(err))}))
		case first:
			first = false
			err = own(ctx, frameSSE("hello", batch.Cursor.String(), helloFrame{id, batch.Last, batch.Cursor, d.now()}))
		case len(batch.Bytes) == 0:
			if batch.Idle {
				err = own(ctx, frameSSE("ping", "", pingFrame{d.now()}))
			}
		case batch.Packs != nil:
			err = s.WriteBlocks(ctx, blocks(batch)...)
		default:
			err = s.Write(ctx, batch.Bytes)
		}
		if err != nil {
			return err
		}
	}
	if errors.Is(context.Cause(ctx), wire.ErrShutdown) {
		return own(context.WithoutCancel(ctx), frameSSE("bye", "", byeFrame{infoOf(errShutdown()), true}))
	}
	return nil
}
