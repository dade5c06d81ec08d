package vertesia

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// streamUpdates follows a run over Server-Sent Events: without skipHistory from
// the beginning or since, with it from since or from now on.
func (d *Dialect) streamUpdates(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	skip := r.URL.Query().Get("skipHistory")
	f, err := d.follow(r, c, sess, skip == "true" || skip == "1", asSSE)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return nil
	}
	err = wire.ServeSSE(w, r, wire.SSEOptions{Gzip: true}, d.opt.Conns, f.run)
	if errors.Is(err, wire.ErrShutdown) {
		return errShutdown()
	}
	return err
}

func errShutdown() error {
	return chat.Errorf(chat.Unavailable, "the server is shutting down; come back in a moment")
}

// follower is one reader of a run. It is a value of its own, and what it does are
// calls that return, because its stack stays for as long as it waits.
type follower struct {
	*Dialect
	s      *wire.Stream
	sock   *wire.Conn
	caller chat.Caller
	id     chat.SessionID
	coding coding
	start  chat.Start
	first  []byte // messages that this reader lacks of an event it has
	closer []byte // the message that ended the run, said again to who has it
	at     chat.Seq
	once   bool
	begun  bool
	alone  bool          // compresses for itself
	tail   []byte        // what it was sent last, then
	moved  bool          // events came since it was looked whether the run is over
	pause  time.Duration // before the next batch is taken
	timer  *time.Timer   // nil until it is needed
}

// follow settles where a reader begins.
func (d *Dialect) follow(r *http.Request, c chat.Caller, sess run, skip bool, frame framing) (*follower, error) {
	at, given, err := since(r, "since")
	if err != nil {
		return nil, err
	}
	if sess.once {
		if err := d.settle(r.Context(), c, sess.ID); err != nil {
			return nil, err
		}
		if sess.Session, err = d.opt.Sessions.Get(r.Context(), c, sess.ID); err != nil {
			return nil, err
		}
	}
	f := &follower{Dialect: d, caller: c, id: sess.ID, coding: codingOf(frame, sess.line), once: sess.once}
	f.start = chat.Start{Idle: d.opt.Heartbeat, ByPosition: true}
	switch {
	case given && at > 0:
		p, err := d.find(r.Context(), c, &sess.Session, at)
		if err != nil {
			return nil, err
		}
		f.start.Cursor = &p.cursor
		if p.last != nil {
			f.first = f.coding.appendMessages(nil, p.last, at)
		}
		if f.closer, err = d.closerFor(r.Context(), c, sess, f.coding, at); err != nil {
			return nil, err
		}
	case !skip:
		f.start.Cursor = &chat.Cursor{}
	default:
		f.closer, err = d.closerFor(r.Context(), c, sess, f.coding, math.MaxInt64)
	}
	return f, err
}

// run is the write loop. The hub encodes once for all readers; a batch is all
// this one lacks.
func (f *follower) run(ctx context.Context, s *wire.Stream) error {
	f.s = s
	return f.loop(ctx)
}

func (f *follower) loop(ctx context.Context) error {
	leave := f.crowd.enter(f.id)
	defer leave()
	for more := true; more; {
		more = false
		for batch, err := range f.watch(ctx) {
			if err != nil {
				return f.end(err)
			}
			if err := f.pass(ctx, &batch); err != nil {
				return err
			}
			if more = f.parts(&batch); more {
				break
			}
			if f.pause > 0 {
				f.rest(ctx)
			}
		}
	}
	return nil
}

// parts reports whether a reader that has all there is goes on with a
// compression of its own, from here.
func (f *follower) parts(b *chat.Batch) bool {
	if f.alone || !b.Live || f.s == nil || !f.s.Compressed() || !f.crowd.few(f.id) {
		return false
	}
	f.alone, f.start.Cursor = true, &b.Cursor
	return true
}

//go:noinline
func (f *follower) watch(ctx context.Context) iter.Seq2[chat.Batch, error] {
	var enc chat.Encoding = f.coding
	if f.s != nil && f.s.Compressed() && !f.alone {
		enc = packed{f.coding}
	}
	return f.opt.Sessions.Watch(ctx, f.caller, f.id, f.start, enc)
}

// end says how a stream ends that cannot go on. One whose run is gone ends in
// order; any other is cut, and the client comes back.
func (f *follower) end(err error) error {
	switch chat.CodeOf(err) {
	case chat.Gone, chat.NotFound, chat.Denied:
		return nil
	}
	return err
}

// pass writes a batch.
//
//go:noinline
func (f *follower) pass(ctx context.Context, b *chat.Batch) error {
	pieces := f.begun && b.Cursor.Seq == f.at && b.Live
	f.moved = f.moved || b.Cursor.Seq != f.at
	f.at = b.Cursor.Seq
	if !f.begun {
		f.begun = true
		return f.hello(ctx)
	}
	if b.Idle {
		f.tail = nil // who is silent holds no memory for what was said
		return f.beat(ctx)
	}
	if err := f.write(ctx, b); err != nil {
		return err
	}
	if b.Live && f.closer != nil {
		closer := f.closer
		f.closer = nil
		if err := f.own(ctx, closer); err != nil {
			return err
		}
	}
	if b.Live && f.moved && f.once {
		f.moved = false
		if err := f.settle(ctx, f.caller, f.id); err != nil {
			f.log.WarnContext(ctx, "a run could not be completed; the next reader tries again", "session", f.id, "err", err)
		}
	}
	f.paced(pieces && len(b.Bytes) > 0)
	return nil
}

// hello begins the stream, so that the client knows it is open.
func (f *follower) hello(ctx context.Context) error {
	if len(f.first) > 0 {
		first := f.first
		f.first = nil
		return f.own(ctx, first)
	}
	if f.s != nil {
		return f.own(ctx, wire.AppendSSEComment(nil, "open"))
	}
	return nil
}

func (f *follower) beat(ctx context.Context) error {
	if f.s != nil {
		return f.own(ctx, wire.AppendSSEComment(nil, "ping"))
	}
	return f.sock.Ping(ctx, nil)
}

func (f *follower) write(ctx context.Context, b *chat.Batch) error {
	switch {
	case len(b.Bytes) == 0:
		return nil
	case f.s == nil:
		return f.sock.Write(ctx, b.Bytes)
	case b.Packs != nil:
		return f.s.WriteBlocks(ctx, blocks(b)...)
	}
	return f.own(ctx, b.Bytes)
}

// own writes what is for this reader alone.
func (f *follower) own(ctx context.Context, frames []byte) error {
	switch {
	case f.s == nil:
		return f.sock.Write(ctx, frames)
	case f.alone:
		return f.s.WriteBlocks(ctx, f.after(frames))
	case f.s.Compressed():
		return f.s.WriteBlocks(ctx, wire.CompressBlock(nil, frames))
	}
	return f.s.Write(ctx, frames)
}

// contextSize is how much of what a reader was sent is kept to compress what comes
// next: enough for the messages that the next one resembles. A chunk resembles the
// one before it; to look further back takes time with every token and finds nothing.
const (
	contextSize = 1 << 10
	nearSize    = 512
)

// after compresses frames with what this reader was sent before.
//
//go:noinline
func (f *follower) after(frames []byte) wire.Block {
	before := f.tail
	if len(frames) < nearSize/2 { // a chunk or a few
		before = before[max(0, len(before)-nearSize):]
	}
	b := wire.CompressAfter(make([]byte, 0, 64+len(frames)/2), frames, before)
	if len(frames) >= contextSize {
		f.tail = append(f.tail[:0], frames[len(frames)-contextSize:]...)
		return b
	}
	if over := len(f.tail) + len(frames) - contextSize; over > 0 {
		f.tail = f.tail[:copy(f.tail, f.tail[over:])]
	}
	f.tail = append(f.tail, frames...)
	return b
}

// paced holds the next batch back after chunks were written, so that what the
// agent says meanwhile goes out together: at most one write of chunks per Group.
func (f *follower) paced(pieces bool) {
	f.pause = 0
	if pieces {
		f.pause = f.opt.Group
	}
}

// rest waits for the pause to end.
func (f *follower) rest(ctx context.Context) {
	if f.timer == nil {
		f.timer = time.NewTimer(f.pause)
	} else {
		f.timer.Reset(f.pause)
	}
	select {
	case <-f.timer.C:
	case <-ctx.Done():
		f.timer.Stop()
	}
}
