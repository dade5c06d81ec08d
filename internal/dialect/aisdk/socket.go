package aisdk

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// maxRequests bounds the responses that one socket has at once.
const maxRequests = 64

// socketFrame is a frame of WebSocketChatTransport. A send frame also has the fields of sendBody.
type socketFrame struct {
	Type    string `json:"type"` // send, resume, abort
	Request string `json:"requestId"`
	ID      string `json:"id"`
	Body    struct {
		Agent string `json:"agent"`
	} `json:"body"`
}

// Types of frames of the server.
const (
	frameStart    = "start"
	frameEnd      = "end"
	frameError    = "error"
	frameNoActive = "no-active"
)

// socket is one WebSocket. It carries the responses of any number of chats.
type socket struct {
	d      *Dialect
	conn   *wire.Conn
	caller chat.Caller

	running sync.WaitGroup
	mu      sync.Mutex
	cancel  map[string]context.CancelFunc // by requestId
}

func (d *Dialect) socket(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	err := wire.ServeWS(w, r, wire.WSOptions{MaxMessage: int(d.opt.MaxBody)}, d.opt.Conns, func(ctx context.Context, conn *wire.Conn) error {
		s := &socket{d: d, conn: conn, caller: c, cancel: map[string]context.CancelFunc{}}
		return s.serve(ctx)
	})
	if bad, ok := errors.AsType[*wire.HandshakeError](err); ok {
		return invalid("This address wants a WebSocket, or a POST: %s.", bad.Reason)
	}
	if errors.Is(err, wire.ErrShutdown) {
		return errShutdown
	}
	return err
}

// serve reads frames until the connection ends. Each request has a goroutine for its response.
func (s *socket) serve(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer s.running.Wait()
	defer end(wire.ErrClosed)
	for {
		b, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		if err := s.take(ctx, b); err != nil {
			return err
		}
	}
}

// take does what a frame asks for.
func (s *socket) take(ctx context.Context, b []byte) error {
	var f socketFrame
	err := edge.CheckJSON(b)
	if err == nil {
		err = edge.Decode(b, &f)
	}
	if err == nil && (f.Request == "" || len(f.Request) > 200) {
		err = invalid("A frame has a requestId of 1 to 200 bytes.")
	}
	if err != nil { // there is no request that could be told
		return s.conn.CloseWith(wire.ClosePolicy, text.Clip(chat.Public(err).Msg, 100))
	}
	if f.Type == "abort" {
		s.end(f.Request)
		return nil
	}
	work := s.resume
	switch f.Type {
	case "send":
		b = append([]byte(nil), b...) // valid until the next Read
		work = func(ctx context.Context, f socketFrame) error { return s.send(ctx, f, b) }
	case "resume":
	default:
		return s.fail(ctx, f.Request, invalid("A frame has the type send, resume or abort, not %q.", text.Clip(f.Type, 40)))
	}
	if err := s.allow(ctx); err != nil {
		return s.fail(ctx, f.Request, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	if !s.begin(f.Request, cancel) {
		cancel()
		return s.fail(ctx, f.Request, chat.Errorf(chat.SlowDown, "A socket has at most %d responses at once, each with its own requestId.", maxRequests))
	}
	s.running.Go(func() {
		defer s.end(f.Request)
		if err := work(ctx, f); err != nil && ctx.Err() == nil {
			s.d.report(ctx, chat.SessionID(text.Clip(f.ID, 128)), err)
			_ = s.fail(ctx, f.Request, err) // it fails when the connection has ended
		}
	})
	return nil
}

func (s *socket) allow(ctx context.Context) error {
	if err := wire.Ended(ctx); err != nil { // the credential ended after the frame was read
		return err
	}
	if s.d.opt.Allow == nil {
		return nil
	}
	return s.d.opt.Allow(s.caller, 1)
}

// begin registers a request. It reports false when the id is taken or there are too many.
func (s *socket) begin(request string, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel[request] != nil || len(s.cancel) >= maxRequests {
		return false
	}
	s.cancel[request] = cancel
	return true
}

// end ends a response. The turn goes on: pages also send abort when they are closed.
func (s *socket) end(request string) {
	s.mu.Lock()
	cancel := s.cancel[request]
	delete(s.cancel, request)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (s *socket) send(ctx context.Context, f socketFrame, b []byte) error {
	req, err := decodeSend(b)
	if err != nil {
		return err
	}
	req.agent = f.Body.Agent
	t, err := s.d.send(ctx, s.caller, req, false)
	if err != nil {
		return err
	}
	return s.respond(ctx, f.Request, t)
}

func (s *socket) resume(ctx context.Context, f socketFrame) error {
	t, err := s.d.resumable(ctx, s.caller, f.ID, false, false)
	switch {
	case err != nil:
		return err
	case t == nil:
		return s.conn.WriteText(ctx, frame(nil, frameNoActive, f.Request))
	}
	return s.respond(ctx, f.Request, *t)
}

// respond sends the chunks of a target, numbered from 0.
func (s *socket) respond(ctx context.Context, request string, t target) error {
	if err := s.conn.WriteText(ctx, frame(nil, frameStart, request)); err != nil {
		return err
	}
	n := 0
	var body, frames []byte
	err := s.d.follow(ctx, s.caller, t, func(chunks []chunk) error {
		frames = frames[:0]
		for i := range chunks {
			body = append(body[:0], `{"type":"chunk","requestId":`...)
			body = chat.AppendString(body, request)
			body = strconv.AppendInt(append(body, `,"sequence":`...), int64(n), 10)
			body = append(chunks[i].append(append(body, `,"chunk":`...)), '}')
			frames = wire.AppendTextFrame(frames, body)
			n++
		}
		return s.conn.Write(ctx, frames)
	}, func() error { return s.conn.Ping(ctx, nil) })
	if err != nil {
		return err
	}
	return s.conn.WriteText(ctx, frame(nil, frameEnd, request))
}

// fail ends a request with a sentence for the page.
func (s *socket) fail(ctx context.Context, request string, err error) error {
	b := frame(nil, frameError, request)
	b = append(field(b[:len(b)-1], "errorText", chat.Public(err).Msg), '}')
	return s.conn.WriteText(ctx, b)
}

// frame appends a frame without more fields.
func frame(b []byte, typ, request string) []byte {
	b = append(append(append(b, `{"type":"`...), typ...), '"')
	return append(field(b, "requestId", request), '}')
}
