package native

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// limits of one socket.
const (
	maxFrame    = 16 << 20 // bytes of a frame
	maxWatches  = 1000     // sessions followed at once
	maxInFlight = 256      // requests that are not answered yet
)

// openSocket serves a WebSocket that carries many sessions.
func (d *Dialect) openSocket(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	return failedHandshake(wire.ServeMessages(w, r, wire.WSOptions{MaxMessage: maxFrame}, d.opt.Conns, func(ctx context.Context, conn *wire.Conn) wire.Receiver {
		s := newSocket(d, conn, &c)
		s.watches = map[chat.SessionID]*watching{}
		s.heartbeat = s.beat(ctx)
		return s
	}))
}

// failedHandshake returns the error for the client, whose request did not become a WebSocket.
func failedHandshake(err error) error {
	var bad *wire.HandshakeError
	switch {
	case errors.Is(err, wire.ErrShutdown):
		return errShutdown()
	case errors.As(err, &bad):
		return chat.Errorf(chat.Invalid, "%s", bad.Reason)
	}
	return err
}

func errShutdown() error {
	return chat.Errorf(chat.Unavailable, "the server is shutting down; come back in a moment with the last cursor")
}

// socket is one client's connection.
type socket struct {
	d         *Dialect
	conn      *wire.Conn
	caller    chat.Caller
	slots     chan struct{}
	group     sync.WaitGroup
	paced     bool                 // frames over the limit wait instead of being refused
	again     func(err error) bool // reports that the client has to connect again and repeat its requests; nil means never
	light     int                  // light frames since the last counted one; used by the read loop only
	pieces    collected
	refused   *refusal // of TryReceive; sent by Receive
	heartbeat *edge.Heartbeat

	mu      sync.Mutex
	watches map[chat.SessionID]*watching
	unsent  []func() // release large frames whose answers are not sent yet
}

// newSocket takes a pointer because a copy of the caller would be on the stack of run.
func newSocket(d *Dialect, conn *wire.Conn, c *chat.Caller) *socket {
	return &socket{d: d, conn: conn, caller: *c, slots: make(chan struct{}, maxInFlight)}
}

// handler handles the frames of a kind of socket.
type handler interface {
	handle(ctx context.Context, f clientFrame) error
	handlePiece(ctx context.Context, p pieceFrame) error
}

// Receive handles a frame. Requests enter the order of their session as they are read;
// answers to appends and previews may come in another order.
func (s *socket) Receive(ctx context.Context, msg []byte) { s.receive(ctx, msg, s) }

func (s *socket) receive(ctx context.Context, msg []byte, h handler) {
	if r := s.refused; r != nil {
		s.refused = nil
		s.refuse(ctx, r.id, r.session, r.err)
		return
	}
	s.take(ctx, msg, h)
	if len(s.pieces.all) > 0 && (len(s.pieces.all) == maxCollected || !s.conn.Buffered()) {
		s.showPieces(ctx)
	}
}

// End waits for the requests under way. At shutdown the last frame asks the client to
// reconnect.
func (s *socket) End(ctx context.Context, err error) error {
	s.conn.Cancel(wire.ErrClosed) // it has ended already, unless a frame caused a panic
	s.group.Wait()
	s.end(ctx)
	s.heartbeat.Stop()
	return ended(err)
}

// run reads frames and handles them until the connection ends.
func (s *socket) run(ctx context.Context, h handler) (err error) {
	s.heartbeat = s.beat(ctx)
	defer func() { err = s.End(ctx, err) }()
	for {
		msg, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		s.receive(ctx, msg, h)
	}
}

// take handles one frame.
func (s *socket) take(ctx context.Context, msg []byte, h handler) {
	if p, ok := readPieceFrame(msg); ok {
		s.takePiece(ctx, p, h)
		return
	}
	f, err := parseFrame(msg)
	if f.Op != "preview" {
		s.showPieces(ctx) // they come before this frame
	}
	name := f.Session
	if err == nil && name != "" {
		f.Session, err = s.d.opt.Sessions.Resolve(ctx, s.caller, name)
	}
	if err == nil {
		err = wire.Ended(ctx) // the credential may have ended after the frame was read
	}
	if err == nil {
		err = s.count(ctx, f.Op)
	}
	if err == nil {
		err = h.handle(ctx, f)
	}
	if err != nil {
		s.refuse(ctx, f.ID, name, err)
	}
}

// end asks the client to reconnect, at shutdown, or to sign in again.
func (s *socket) end(ctx context.Context) {
	err := wire.Ended(ctx)
	if errors.Is(context.Cause(ctx), wire.ErrShutdown) {
		err = errShutdown()
	}
	if err != nil {
		info, retry := edge.InfoOf(err), retryable(chat.CodeOf(err))
		s.send(ctx, serverFrame{Op: "bye", Error: &info, Retry: &retry})
	}
}

// ended drops the error of a connection that ended in an ordinary way.
func ended(err error) error {
	var closed *wire.CloseError
	if errors.Is(err, wire.ErrPeerGone) || errors.Is(err, wire.ErrShutdown) || errors.As(err, &closed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// beat pings the client periodically, so that it can detect a broken connection.
func (s *socket) beat(ctx context.Context) *edge.Heartbeat {
	return edge.NewHeartbeat(s.d.opt.Heartbeat, func() { s.ping(ctx, nil) })
}

func (s *socket) ping(ctx context.Context, id json.RawMessage) {
	now := s.d.now()
	s.send(ctx, serverFrame{Op: "ping", ID: id, ServerNow: &now})
}

// send writes a frame. It works also while the connection is being closed, so that
// stored events are acknowledged as long as possible.
func (s *socket) send(ctx context.Context, f serverFrame) {
	b, err := json.Marshal(f)
	if err != nil {
		s.d.log.ErrorContext(ctx, "a frame could not be written as JSON", "err", err)
		return
	}
	s.write(ctx, b)
}

func (s *socket) write(ctx context.Context, frame []byte) {
	_ = s.conn.WriteText(context.WithoutCancel(ctx), frame) // a broken connection ends the read loop
}

func (s *socket) refuse(ctx context.Context, id json.RawMessage, session chat.SessionID, err error) {
	if s.again != nil && s.again(err) {
		return
	}
	info := edge.InfoOf(err)
	if info.Code == chat.Internal {
		s.d.log.ErrorContext(ctx, "frame failed", "err", err)
	}
	s.send(ctx, serverFrame{Op: "error", ID: id, Session: session, Error: &info})
}

// later calls begin, which puts a request into the order of its session, and calls the
// wait that begin returns in another goroutine, at most maxInFlight at once. The slot is
// taken first: a request that is in the order and has no goroutine would block its session.
func (s *socket) later(ctx context.Context, begin func() (wait func(), err error)) error {
	if !s.takeSlot(ctx) {
		return nil
	}
	begun := false
	defer func() {
		if !begun { // also after a panic: End would wait for the slot
			s.freeSlots(1)
		}
	}()
	wait, err := begin()
	if err != nil {
		return err
	}
	begun = true
	release := s.conn.Hold()
	s.d.stacks.Go(func() {
		defer s.freeSlots(1)
		if release != nil {
			defer release()
		}
		wait()
	})
	return nil
}

// takeSlot waits until fewer than maxInFlight requests are not answered. It returns false
// if ctx has ended.
func (s *socket) takeSlot(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
		s.group.Add(1)
		return true
	case <-ctx.Done():
		return false
	}
}

// freeSlots is called when n requests are answered.
func (s *socket) freeSlots(n int) {
	for range n {
		<-s.slots
		s.group.Done()
	}
}

func (s *socket) handle(ctx context.Context, f clientFrame) error {
	switch f.Op {
	case "watch":
		return s.watch(ctx, f)
	case "unwatch":
		return s.unwatch(ctx, f)
	case "append":
		drafts, err := f.drafts()
		if err == nil {
			err = s.allow(ctx, moreRequests(len(drafts)))
		}
		if err != nil {
			return err
		}
		return s.append(ctx, f.ID, f.Session, drafts)
	case "preview":
		pieces, err := f.pieces()
		if err != nil {
			return err
		}
		s.preview(core.SessionPieces{Session: f.Session, Pieces: pieces}, pieceAnswer{id: f.ID})
		return nil
	case "answer":
		a, err := f.answer()
		if err != nil {
			return err
		}
		// Answers and stops are handled before the next frame is read, to keep their order.
		e, err := s.d.opt.Sessions.Answer(ctx, s.caller, f.Session, f.RequestID, a)
		if err == nil {
			s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session, Event: &e})
		}
		return err
	case "stop":
		res, err := s.d.stop(ctx, s.caller, f.Session, stopBody{f.Workstream, f.All, f.Reason})
		if err == nil {
			s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session, Stop: &res})
		}
		return err
	case "ping":
		s.ping(ctx, f.ID)
		return nil
	case "launch_workstream", "message_workstream", "steer_workstream", "terminate_workstream", "workstream_status":
		return s.workstream(ctx, f)
	}
	return chat.Errorf(chat.Invalid, "op %q is not one of watch, unwatch, append, preview, answer, stop, ping, %s", text.Clip(f.Op, 80), workOps)
}
