package native

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/wire"
)

// limits of one socket.
const (
	maxWatches  = 1000 // sessions followed at once
	maxInFlight = 256  // requests whose answers are not out yet
)

// openSocket serves a WebSocket that carries many sessions.
func (d *Dialect) openSocket(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	return d.serveWS(w, r, func(ctx context.Context, conn *wire.Conn) error {
		s := &socket{d: d, conn: conn, caller: c, watches: map[chat.SessionID]context.CancelFunc{}, slots: make(chan struct{}, maxInFlight)}
		return s.run(ctx)
	})
}

func (d *Dialect) serveWS(w http.ResponseWriter, r *http.Request, fn func(ctx context.Context, conn *wire.Conn) error) error {
	err := wire.ServeWS(w, r, wire.WSOptions{MaxMessage: d.opt.MaxFrame}, d.opt.Conns, fn)
	var bad *wire.HandshakeError
	switch {
	case errors.Is(err, wire.ErrShutdown):
		return chat.Errorf(chat.Unavailable, "the server is shutting down; come back in a moment")
	case errors.As(err, &bad):
		return chat.Errorf(chat.Invalid, "this address speaks WebSocket: %s", bad.Reason)
	}
	return err
}

// socket is one client's connection.
type socket struct {
	d      *Dialect
	conn   *wire.Conn
	caller chat.Caller
	slots  chan struct{}
	group  sync.WaitGroup

	mu      sync.Mutex
	watches map[chat.SessionID]context.CancelFunc
}

// run is the read loop. Requests get their place in their session's order as
// they are read; their answers may come in another order.
func (s *socket) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.group.Wait()
	defer cancel()
	s.group.Go(func() { s.beat(ctx) })
	for {
		msg, err := s.conn.Read(ctx)
		if err != nil {
			return ended(err)
		}
		var f clientFrame
		if err := checkJSON(msg); err != nil {
			s.refuse(ctx, nil, "", err)
			continue
		}
		if err := json.Unmarshal(msg, &f); err != nil {
			s.refuse(ctx, nil, "", chat.Errorf(chat.Invalid, "the frame does not fit: %s", problem(err)))
			continue
		}
		s.handle(ctx, f)
	}
}

// ended tells a connection's ordinary end from a fault.
func ended(err error) error {
	var closed *wire.CloseError
	if errors.Is(err, wire.ErrPeerGone) || errors.Is(err, wire.ErrShutdown) || errors.As(err, &closed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// beat tells the client the time, so that it knows that the line lives.
func (s *socket) beat(ctx context.Context) {
	tick := time.NewTicker(s.d.opt.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			now := s.d.now()
			s.send(ctx, serverFrame{Op: "ping", ServerNow: &now})
		case <-ctx.Done():
			return
		}
	}
}

func (s *socket) send(ctx context.Context, f serverFrame) {
	b, err := json.Marshal(f)
	if err != nil {
		s.d.log.ErrorContext(ctx, "a frame could not be written as JSON", "err", err)
		return
	}
	_ = s.conn.WriteText(ctx, b) // a broken connection ends the read loop
}

func (s *socket) refuse(ctx context.Context, id json.RawMessage, session chat.SessionID, err error) {
	info := infoOf(err)
	if info.Code == chat.Internal {
		s.d.log.ErrorContext(ctx, "frame failed", "err", err)
	}
	s.send(ctx, serverFrame{Op: "error", ID: id, Session: session, Error: &info})
}

// later runs f in a goroutine of its own, at most maxInFlight at once.
func (s *socket) later(f func()) {
	s.slots <- struct{}{}
	s.group.Go(func() {
		defer func() { <-s.slots }()
		f()
	})
}

func (s *socket) handle(ctx context.Context, f clientFrame) {
	var err error
	switch f.Op {
	case "watch":
		err = s.watch(ctx, f)
	case "unwatch":
		s.unwatch(f.Session)
		s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session})
	case "append":
		err = s.append(ctx, f)
	case "preview":
		err = s.preview(ctx, f)
	case "answer":
		if f.Answer == nil {
			f.Answer = &chat.Answer{}
		}
		s.later(func() {
			e, err := s.d.opt.Sessions.Answer(ctx, s.caller, f.Session, f.RequestID, *f.Answer)
			if err != nil {
				s.refuse(ctx, f.ID, f.Session, err)
				return
			}
			s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session, Event: &e})
		})
	case "stop":
		s.later(func() {
			res, err := s.d.opt.Sessions.Stop(ctx, s.caller, f.Session, f.Workstream, f.Reason)
			if err != nil {
				s.refuse(ctx, f.ID, f.Session, err)
				return
			}
			s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session, Stop: &res})
		})
	case "ping":
		now := s.d.now()
		s.send(ctx, serverFrame{Op: "ping", ID: f.ID, ServerNow: &now})
	default:
		err = chat.Errorf(chat.Invalid, "op %q is not one of watch, unwatch, append, preview, answer, stop, ping", f.Op)
	}
	if err != nil {
		s.refuse(ctx, f.ID, f.Session, err)
	}
}

func (s *socket) append(ctx context.Context, f clientFrame) error {
	drafts, err := chat.ParseDrafts(f.Events)
	if err != nil {
		return err
	}
	wait, err := s.d.opt.Sessions.AppendLater(ctx, s.caller, f.Session, drafts)
	if err != nil {
		return err
	}
	s.later(func() {
		events, err := wait()
		if err != nil {
			s.refuse(ctx, f.ID, f.Session, err)
			return
		}
		s.sendEvents(ctx, f.ID, events)
	})
	return nil
}

// sendEvents answers an append without a detour through reflection.
func (s *socket) sendEvents(ctx context.Context, id json.RawMessage, events []chat.Event) {
	b := append(make([]byte, 0, 64+512*len(events)), `{"op":"ok",`...)
	if len(id) > 0 {
		b = append(append(append(b, `"id":`...), id...), ',')
	}
	b = append(b, appendEvents(nil, events)[1:]...)
	_ = s.conn.WriteText(ctx, b)
}

func (s *socket) preview(ctx context.Context, f clientFrame) error {
	pieces := f.pieces()
	if len(pieces) == 0 {
		return chat.Errorf(chat.Invalid, "there is nothing to show: send preview or previews")
	}
	wait, err := s.d.opt.Sessions.PreviewLater(ctx, s.caller, f.Session, pieces)
	if err != nil {
		return err
	}
	s.later(func() {
		if err := wait(); err != nil {
			s.refuse(ctx, f.ID, f.Session, err)
		} else if len(f.ID) > 0 {
			s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session})
		}
	})
	return nil
}

func (f *clientFrame) pieces() []chat.Preview {
	var pieces []chat.Preview
	if f.Preview != nil {
		pieces = append(pieces, f.Preview.preview())
	}
	for _, p := range f.Previews {
		pieces = append(pieces, p.preview())
	}
	return pieces
}

// watch begins to follow a session; a session that is followed already is
// followed anew from the cursor given.
func (s *socket) watch(ctx context.Context, f clientFrame) error {
	start := chat.Start{}
	if f.After != nil {
		c, err := chat.ParseCursor(*f.After)
		if err != nil {
			return err
		}
		start.Cursor = &c
	}
	s.unwatch(f.Session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watches) >= maxWatches {
		return chat.Errorf(chat.SlowDown, "one connection follows at most %d sessions", maxWatches)
	}
	ctx, cancel := context.WithCancel(ctx)
	s.watches[f.Session] = cancel
	s.group.Go(func() {
		defer cancel()
		s.follow(ctx, f, start)
	})
	return nil
}

func (s *socket) unwatch(id chat.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.watches[id]; cancel != nil {
		cancel()
		delete(s.watches, id)
	}
}

// follow is the write loop of one watch.
func (s *socket) follow(ctx context.Context, f clientFrame, start chat.Start) {
	first := true
	for batch, err := range s.d.opt.Sessions.Watch(ctx, s.caller, f.Session, start, ws{}) {
		if err != nil {
			if first {
				s.refuse(ctx, f.ID, f.Session, err)
			} else {
				info, retry := infoOf(err), retryable(chat.CodeOf(err))
				s.send(context.WithoutCancel(ctx), serverFrame{Op: "bye", Session: f.Session, Error: &info, Retry: &retry})
			}
			s.unwatch(f.Session)
			return
		}
		if first {
			first = false
			now := s.d.now()
			s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session, Cursor: &batch.Cursor, Last: &batch.Last, ServerNow: &now})
			continue
		}
		if len(batch.Bytes) > 0 && s.conn.Write(ctx, batch.Bytes) != nil {
			return
		}
	}
}
