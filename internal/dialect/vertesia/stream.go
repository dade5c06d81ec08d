package vertesia

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// streamUpdates follows a run over Server-Sent Events: without skipHistory from
// the beginning or since, with it from since or from now on.
func (d *Dialect) streamUpdates(w http.ResponseWriter, r *http.Request, c chat.Caller, sess run) error {
	skip := r.URL.Query().Get("skipHistory")
	f, err := d.follow(r, c, sess, skip == "true" || skip == "1", asSSE)
	if err != nil {
		return err
	}
	return d.serveSSE(w, r, wire.SSEOptions{Gzip: true}, func(ctx context.Context, stream *wire.Stream) error {
		f.stream = stream
		return f.loop(ctx)
	})
}

// serveSSE serves an event stream; HEAD gets only its headers.
func (d *Dialect) serveSSE(w http.ResponseWriter, r *http.Request, opt wire.SSEOptions, run func(context.Context, *wire.Stream) error) error {
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return nil
	}
	return serveError(wire.ServeSSE(w, r, opt, d.opt.Conns, run))
}

// serveError is the error of a stream or socket for the client.
func serveError(err error) error {
	if errors.Is(err, wire.ErrShutdown) {
		return chat.Errorf(chat.Unavailable, "the server is shutting down; come back in a moment")
	}
	return err
}

// follower is one reader of a run.
type follower struct {
	*Dialect
	stream *wire.Stream // nil on a WebSocket
	conn   *wire.Conn   // nil on an SSE stream
	caller chat.Caller
	id     chat.SessionID
	coding coding
	start  core.Start
	first  []byte // messages of the event at the cursor that the reader lacks
	end    []byte // the message that ended the run, for a reader that has it
	at     chat.Seq
	begun  bool
}

// follow decides where a reader begins.
func (d *Dialect) follow(r *http.Request, c chat.Caller, sess run, skip bool, frame framing) (*follower, error) {
	q := edge.NewQuery(r)
	at := position(q, "since")
	if q.Err != nil {
		return nil, q.Err
	}
	f := &follower{Dialect: d, caller: c, id: sess.ID, coding: codingOf(frame, sess.workstream)}
	f.start = core.Start{Idle: heartbeat, ByPosition: true}
	if at == 0 && !skip {
		f.start.Cursor = &chat.Cursor{}
		return f, nil
	}
	after := chat.At(math.MaxInt64) // from now on
	if at > 0 {
		cursor, last, err := d.cursorAt(r.Context(), c, sess.ID, at)
		if err != nil {
			return nil, err
		}
		f.start.Cursor, after = &cursor, at
		if last != nil {
			f.first = f.coding.appendMessages(nil, last, at)
		}
	}
	var err error
	f.end, err = d.endMessage(r.Context(), c, sess, f.coding, after)
	return f, err
}

// loop writes until the reader leaves or the run is gone. The hub encodes once
// for all readers; a batch holds everything that this one lacks.
func (f *follower) loop(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var enc core.Encoding = f.coding
	if f.stream != nil && f.stream.Compressed() {
		enc = packed{f.coding}
	}
	for batch, err := range f.opt.Sessions.Watch(ctx, f.caller, f.id, f.start, enc) {
		if err != nil {
			return endOfStream(err)
		}
		chunks, err := f.batch(ctx, &batch)
		if err != nil {
			return err
		}
		if !chunks {
			continue
		}
		// At most one write of chunks per Group: what the agent writes meanwhile
		// goes out together.
		pause.Reset(f.opt.Group)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// endOfStream ends the stream in order when the run is gone. After any other
// error the connection is cut and the client reconnects.
func endOfStream(err error) error {
	switch chat.CodeOf(err) {
	case chat.Gone, chat.NotFound, chat.Denied:
		return nil
	}
	return err
}

// batch writes one batch and reports whether it held only chunks.
func (f *follower) batch(ctx context.Context, b *core.Batch) (chunks bool, err error) {
	chunks = f.begun && b.Cursor.Seq == f.at && b.Live && len(b.Bytes) > 0
	f.at = b.Cursor.Seq
	if !f.begun {
		f.begun = true
		if len(f.first) > 0 {
			return false, f.write(ctx, f.first)
		}
		return false, f.comment(ctx, "open")
	}
	if b.Idle {
		return false, f.comment(ctx, "ping")
	}
	if len(b.Bytes) > 0 {
		if b.Packs != nil {
			err = f.stream.WriteBlocks(ctx, blocks(b)...)
		} else {
			err = f.write(ctx, b.Bytes)
		}
		if err != nil {
			return false, err
		}
	}
	if b.Live && f.end != nil {
		if err := f.write(ctx, f.end); err != nil {
			return false, err
		}
		f.end = nil
	}
	return chunks, nil
}

// write writes frames that are not compressed.
func (f *follower) write(ctx context.Context, frames []byte) error {
	if f.conn != nil {
		return f.conn.Write(ctx, frames)
	}
	return f.stream.Write(ctx, frames)
}

// comment shows the client that the stream is open; on a WebSocket a ping does.
func (f *follower) comment(ctx context.Context, text string) error {
	if f.conn == nil {
		return f.stream.Write(ctx, wire.AppendSSEComment(nil, text))
	}
	if text == "ping" {
		return f.conn.Ping(ctx, nil)
	}
	return nil
}
