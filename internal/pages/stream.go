package pages

import (
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/turnlog"
	"github.com/parley-hq/parley/internal/wire"
)

// View makes the events of a stream from the entries of a session.
type View interface {
	// Append appends what entries add to the stream. live says that all stored entries were taken. done says that the stream
	// is complete with what was appended.
	Append(dst []byte, entries []turnlog.Entry, live bool) (out []byte, done bool, err error)
}

// Opening is how a stream begins.
type Opening struct {
	Write func(b []byte) error // sends events, and the head of the response before the first
	Idle  func() error         // to be called in times of silence
}

// Stream answers with Server-Sent Events: what open writes, then what the view that it returns makes of the entries after an event.
// Without a view the response is complete. When anything fails, the connection is broken off, because the clients take a proper end
// for success. A stream that waits for the agent needs no goroutine but the one that notices that the client has disconnected.
func (s *Chats) Stream(w http.ResponseWriter, r *http.Request, c chat.Caller, id chat.SessionID, open func(context.Context, Opening) (View, chat.Seq, error)) error {
	return wire.ServeSSE(w, r, wire.SSEOptions{MarkBreaks: true}, s.Conns, func(ctx context.Context, out *wire.Stream) error {
		f := &stream{chats: s, out: out, ctx: ctx, id: id}
		view, after, err := open(ctx, Opening{Write: func(b []byte) error { return out.Write(ctx, b) }, Idle: f.ping})
		if view == nil || err != nil {
			f.err = err
			return f.result()
		}
		f.view, f.decoder = view, turnlog.NewDecoder(s.Sessions, c, id)
		if out.CanDetach() {
			f.beat = edge.NewHeartbeat(s.Heartbeat, func() { _ = f.ping() }) // a broken connection ends the context
			s.Sessions.Follow(ctx, c, id, turnlog.Start(after, 0), nil, f)
			return wire.ErrDetached
		}
		for batch, err := range s.Sessions.Watch(ctx, c, id, turnlog.Start(after, s.Heartbeat), nil) {
			if !f.Take(batch, err) {
				break
			}
		}
		return f.result()
	})
}

// stream is a response that follows a session. It is a [core.TrySink].
type stream struct {
	chats   *Chats
	out     *wire.Stream
	ctx     context.Context // of the stream
	id      chat.SessionID
	view    View
	decoder *turnlog.Decoder
	beat    *edge.Heartbeat // nil when the watch says that it is idle

	buf     []byte
	pending bool // buf has the batch that TryTake could not write
	done    bool // the response is complete with buf
	err     error
}

// maxKept is the largest buffer that a stream keeps while it waits.
const maxKept = 4 << 10

// Take writes a batch; it reports whether to continue.
func (f *stream) Take(b core.Batch, err error) bool {
	switch {
	case err != nil:
	case b.Idle:
		err = f.ping()
	case f.pending:
		f.pending = false
		err = f.write()
	default:
		err = f.chats.Conns.Guard(func() error {
			_, err := f.decoder.Take(f.ctx, b, func(entries []turnlog.Entry, live bool) (bool, error) {
				if err := f.encode(entries, live); err != nil {
					return false, err
				}
				return f.done, f.write()
			})
			return err
		})
	}
	f.err = err
	return err == nil && !f.done
}

// TryTake takes pieces if the connection takes them without waiting.
func (f *stream) TryTake(b core.Batch) bool {
	if f.pending {
		return false
	}
	entries := f.decoder.TakePieces(b)
	if entries == nil {
		return false
	}
	f.err = f.chats.Conns.Guard(func() error { return f.encode(entries, true) })
	if f.err != nil || f.done || len(f.buf) > 0 && !f.out.TryWrite(f.ctx, f.buf) {
		f.pending = true
		return false
	}
	f.note()
	f.sent()
	return true
}

// encode puts what entries add into the buffer.
func (f *stream) encode(entries []turnlog.Entry, live bool) (err error) {
	f.buf, f.done, err = f.view.Append(f.buf[:0], entries, live)
	return err
}

// write writes the buffer.
func (f *stream) write() error {
	if f.err != nil || len(f.buf) == 0 {
		return f.err
	}
	f.note()
	err := f.out.Write(f.ctx, f.buf)
	f.sent()
	return err
}

// sent releases a buffer that is too large to be kept.
func (f *stream) sent() {
	if cap(f.buf) > maxKept {
		f.buf = nil
	}
}

func (f *stream) note() {
	if f.beat != nil {
		f.beat.Note()
	}
}

// ping tells an idle client that the connection works.
func (f *stream) ping() error { return f.out.Write(f.ctx, wire.AppendSSEComment(nil, "ping")) }

// Done ends the stream.
func (f *stream) Done() {
	f.beat.Stop()
	f.out.End(f.result())
}

// result is the error with which the stream ends, nil when the response is complete.
func (f *stream) result() error {
	if f.err == nil && f.view != nil && (!f.done || f.pending) {
		f.err = context.Cause(f.ctx) // the watch has ended with the context
	}
	if f.err != nil {
		f.chats.Report(f.ctx, f.id, f.err)
	}
	return f.err
}
