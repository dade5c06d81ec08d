package aisdk

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// maxRequests is the number of responses that one socket may have at once.
const maxRequests = 64

// Limits of sockets that have not authenticated yet. The frame that has the credential may also have a long conversation.
const (
	maxUnauthenticatedFrame = 1 << 20 // bytes
	maxUnauthenticated      = 256     // sockets; wire.AuthLimit also limits those of one address
	authTimeout             = 10 * time.Second
)

var errAuthTimeout = errors.New("no authentication in time: send headers.authorization with a frame")

// socketFrame is a frame of WebSocketChatTransport. A send frame also has the fields of sendBody.
type socketFrame struct {
	Type    string `json:"type"` // send, resume, abort
	Request string `json:"requestId"`
	ID      string `json:"id"`
	Headers struct {
		Authorization string `json:"authorization"` // the transport writes names in lower case
	} `json:"headers"`
	Body struct {
		Agent  string          `json:"agent"`
		Replay string          `json:"replay"` // of a resume frame
		Tools  json.RawMessage `json:"tools"`
		System string          `json:"system"`
	} `json:"body"`
}

// Types of frames of the server.
const (
	frameStart    = "start"
	frameChunk    = "chunk"
	frameEnd      = "end"
	frameError    = "error"
	frameNoActive = "no-active"
)

// serverFrame is a frame of the server.
type serverFrame struct {
	Type     string `json:"type"`
	Request  string `json:"requestId"`
	Sequence *int   `json:"sequence,omitempty"`
	Chunk    *chunk `json:"chunk,omitempty"`
	Error    string `json:"errorText,omitempty"`
}

// socket is one WebSocket. It carries the responses of any number of chats.
type socket struct {
	d        *Dialect
	conn     *wire.Conn
	caller   chat.Caller    // of frames that bring no credential
	authErr  error          // why that caller is not known; nil when it is
	authWait *wire.AuthWait // nil when the handshake brought a credential
	close    context.CancelCauseFunc
	release  func() // ends the binding of the socket to the credential of a frame; nil without one

	running sync.WaitGroup
	mu      sync.Mutex
	open    map[string]*openResponse // by requestId
}

// openResponse is a response that is being sent.
type openResponse struct {
	stop func() // ends it
}

// socket accepts a WebSocket. Without a credential in the handshake, each frame needs one.
func (d *Dialect) socket(w http.ResponseWriter, r *http.Request) {
	s := &socket{d: d, open: map[string]*openResponse{}}
	s.caller, s.authErr = d.Caller(r)
	limit := int(d.MaxBody)
	if s.authErr != nil {
		if chat.CodeOf(s.authErr) != chat.Unauthenticated || !wire.IsWS(r) {
			d.HTTP.Fail(w, r, s.authErr)
			return
		}
		if s.authWait = d.unauthenticated.Take(d.opt.ClientAddress(r)); s.authWait == nil {
			d.HTTP.Fail(w, r, chat.Errorf(chat.SlowDown, "Too many connections from your address wait for authentication; try again in a moment.").
				With("retry_after", int(d.unauthenticated.Timeout.Seconds())+1))
			return
		}
		limit = min(limit, d.unauthenticated.MaxMessage)
	}
	err := wire.ServeWS(w, r, wire.WSOptions{MaxMessage: limit}, d.Conns, s.serve)
	if err == nil {
		return
	}
	s.authWait.End()
	if bad, ok := errors.AsType[*wire.HandshakeError](err); ok {
		err = invalid("Send a message with POST, or open a WebSocket: %s.", bad.Reason)
	}
	d.HTTP.Fail(w, r, err)
}

// serve reads frames until the connection ends. Each request has a goroutine for its response.
func (s *socket) serve(ctx context.Context, conn *wire.Conn) error {
	s.conn = conn
	ctx, s.close = context.WithCancelCause(ctx)
	defer s.running.Wait()
	defer s.close(wire.ErrClosed)
	defer s.unbind()
	defer s.authWait.End()
	s.authWait.Begin(conn, int(s.d.MaxBody), errAuthTimeout.Error(), func() { s.close(errAuthTimeout) })
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
	switch f.Type {
	case "abort":
		s.end(f.Request)
		return nil
	case "send", "resume":
	default:
		return s.fail(ctx, f.Request, invalid("A frame has the type send, resume or abort, not %q.", text.Clip(f.Type, 40)))
	}
	c, err := s.callerOf(ctx, &f)
	if err == nil && f.Body.Replay != "" && f.Body.Replay != replayFinished {
		err = invalid("The only value of replay is %s.", replayFinished)
	}
	var req *sendRequest
	if err == nil && f.Type == "send" {
		req, err = decodeSend(b)
	}
	if err == nil && req != nil && req.message.Role == roleUser && (f.Body.System != "" || len(f.Body.Tools) > 0) {
		req.context, err = messageContext(f.Body.System, f.Body.Tools)
	}
	if err != nil {
		return s.fail(ctx, f.Request, err)
	}
	bound, release := s.d.opt.Bind(ctx, c)
	bound, cancel := context.WithCancel(bound)
	res := &openResponse{stop: func() { cancel(); release() }}
	if err := s.begin(bound, c, f.Request, res); err != nil {
		res.stop()
		return s.fail(ctx, f.Request, err)
	}
	hold := s.conn.Hold()
	s.running.Go(func() {
		defer res.stop()
		if hold != nil {
			defer hold()
		}
		var last serverFrame
		err := s.d.Conns.Guard(func() (err error) {
			last, err = s.answer(bound, c, &f, req, hold)
			return err
		})
		s.free(f.Request, res) // before the last frame, because a client may use the id again when it has that frame
		if ended := wire.Ended(bound); ended != nil {
			err = ended
		} else if bound.Err() != nil {
			return
		}
		if err == nil {
			err = s.write(bound, last)
		}
		if err != nil {
			s.d.Report(bound, chat.SessionID(text.Clip(f.ID, 128)), err)
			_ = s.fail(ctx, f.Request, err) // it fails when the connection has ended
		}
	})
	return nil
}

// callerOf is the caller of a frame: that of its authorization header, else of the handshake.
func (s *socket) callerOf(ctx context.Context, f *socketFrame) (chat.Caller, error) {
	if f.Headers.Authorization == "" {
		return s.caller, s.authErr
	}
	scheme, token, _ := strings.Cut(f.Headers.Authorization, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "The header authorization of a frame has the form Bearer TOKEN.")
	}
	c, err := s.d.opt.Authenticate(ctx, strings.TrimSpace(token))
	if err == nil && s.authErr != nil {
		s.bind(ctx, c)
		s.conn.SetClient(edge.ClientOf(c))
		s.authWait.End()
	}
	return c, err
}

// bind ends a socket whose handshake had no credential with that of its last frame.
func (s *socket) bind(ctx context.Context, c chat.Caller) {
	s.unbind()
	bound, release := s.d.opt.Bind(ctx, c)
	stop := context.AfterFunc(bound, func() { s.close(context.Cause(bound)) })
	s.release = func() { stop(); release() }
}

func (s *socket) unbind() {
	if s.release != nil {
		s.release()
	}
}

// begin registers the response to a request.
func (s *socket) begin(ctx context.Context, c chat.Caller, request string, res *openResponse) error {
	if err := wire.Ended(ctx); err != nil { // the credential ended after the frame was read
		return err
	}
	if s.d.opt.Allow != nil {
		if err := s.d.opt.Allow(c, 1); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[request] != nil || len(s.open) >= maxRequests {
		return chat.Errorf(chat.SlowDown, "A socket has at most %d responses at once, each with its own requestId.", maxRequests)
	}
	s.open[request] = res
	return nil
}

// free makes a request id usable again.
func (s *socket) free(request string, res *openResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[request] == res {
		delete(s.open, request)
	}
}

// end ends a response. The turn goes on: pages also send abort when they are closed.
func (s *socket) end(request string) {
	s.mu.Lock()
	res := s.open[request]
	delete(s.open, request)
	s.mu.Unlock()
	if res != nil {
		res.stop()
	}
}

// answer responds to a send frame, or without a request to a resume frame. It returns the last frame. The response may take
// hours, so it keeps nothing of the frame, and calls release first.
func (s *socket) answer(ctx context.Context, c chat.Caller, f *socketFrame, req *sendRequest, release func()) (serverFrame, error) {
	if req != nil {
		req.agent = f.Body.Agent
		t, err := s.d.send(ctx, c, req, false)
		*req, f.Body.Tools = sendRequest{}, nil
		if release != nil {
			release()
		}
		if err != nil {
			return serverFrame{}, err
		}
		return s.respond(ctx, c, f.Request, t)
	}
	if release != nil {
		release()
	}
	t, err := s.d.resumable(ctx, c, f.ID, false, f.Body.Replay == replayFinished)
	if err != nil {
		return serverFrame{}, err
	}
	if t == nil {
		return serverFrame{Type: frameNoActive, Request: f.Request}, nil
	}
	return s.respond(ctx, c, f.Request, *t)
}

// respond sends the chunks of a target, numbered from 0, and returns the last frame.
func (s *socket) respond(ctx context.Context, c chat.Caller, request string, t target) (serverFrame, error) {
	if err := s.write(ctx, serverFrame{Type: frameStart, Request: request}); err != nil {
		return serverFrame{}, err
	}
	n := 0
	var frames []byte
	err := s.d.follow(ctx, c, t, func(chunks []chunk) error {
		frames = frames[:0]
		for i := range chunks {
			frames = wire.AppendTextFrame(frames, pages.Marshal(serverFrame{Type: frameChunk, Request: request, Sequence: &n, Chunk: &chunks[i]}))
			n++
		}
		return s.conn.Write(ctx, frames)
	}, func() error { return s.conn.Ping(ctx, nil) })
	return serverFrame{Type: frameEnd, Request: request}, err
}

// fail ends a request with a sentence for the page.
func (s *socket) fail(ctx context.Context, request string, err error) error {
	return s.write(ctx, serverFrame{Type: frameError, Request: request, Error: chat.Public(err).Msg})
}

func (s *socket) write(ctx context.Context, f serverFrame) error {
	return s.conn.WriteText(ctx, pages.Marshal(f))
}
