package native

import (
	"bytes"
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

var appendFrameHead = []byte(`{"op":"append"`)

// maxAtOnce is the size of the largest frame that TryReceive handles. A larger one can have a hundred drafts: clients that send
// many of these would delay all others.
const maxAtOnce = 1 << 10

// TryReceive handles a small append of one of the caller's own sessions that is in memory.
func (s *socket) TryReceive(ctx context.Context, msg []byte) (later func(), ok bool) {
	if len(msg) > maxAtOnce || !bytes.HasPrefix(msg, appendFrameHead) || len(s.slots) == cap(s.slots) || wire.Ended(ctx) != nil {
		return nil, false
	}
	f, err := parseFrame(msg)
	if err != nil || f.Op != "append" {
		return nil, false
	}
	drafts, err := f.drafts()
	if err != nil || !s.d.opt.Sessions.AppendsAtOnce(s.caller, f.Session, drafts) {
		return nil, false
	}
	err = s.allow(ctx, 1+moreRequests(len(drafts)))
	if err == nil {
		later, err = s.startAppend(ctx, f.ID, f.Session, drafts)
	}
	if err != nil {
		s.refused = &refusal{f.ID, f.Session, err} // sending it may wait for the client
	}
	return later, err == nil
}

// refusal is the answer to a request that failed.
type refusal struct {
	id      json.RawMessage
	session chat.SessionID
	err     error
}

// append appends to a session. The answer is sent by the goroutine that stores the events,
// together with those of other sockets, unless the client does not read.
func (s *socket) append(ctx context.Context, id json.RawMessage, session chat.SessionID, drafts []chat.Draft) error {
	run, err := s.startAppend(ctx, id, session, drafts)
	if run != nil {
		s.d.stacks.Go(run)
	}
	return err
}

// startAppend decides an append, if nothing else is under way in the session. If run is not
// nil, it must be called soon, in a goroutine that may wait.
func (s *socket) startAppend(ctx context.Context, id json.RawMessage, session chat.SessionID, drafts []chat.Draft) (run func(), err error) {
	if !s.takeSlot(ctx) {
		return nil, nil
	}
	a := &appendAnswer{ctx, s, id, session, s.conn.Hold()}
	begun := false
	defer func() {
		if !begun { // also after a panic: End would wait for the slot
			a.releaseFrame()
			s.freeSlots(1)
		}
	}()
	run, err = s.d.opt.Sessions.AppendThen(ctx, s.caller, session, drafts, a)
	begun = err == nil
	return run, err
}

// appendAnswer is the answer to an append. It has the context of the connection.
type appendAnswer struct {
	ctx     context.Context
	socket  *socket
	id      json.RawMessage
	session chat.SessionID
	release func() // of a large frame; see [wire.Conn.Hold]
}

func (a *appendAnswer) releaseFrame() {
	if a.release != nil {
		a.release()
	}
}

// Answer answers the request. Answers to other requests under way may share the write.
func (a *appendAnswer) Answer(events []chat.Event, err error) {
	s := a.socket
	if err != nil {
		a.releaseFrame()
		s.refuse(a.ctx, a.id, a.session, err)
		s.freeSlots(1)
		return
	}
	s.addUnsent(a.release)
	s.conn.Post(func(b []byte) []byte {
		b = append(b, `{"op":"ok",`...)
		if len(a.id) > 0 {
			b = append(append(append(b, `"id":`...), a.id...), ',')
		}
		return appendEventsField(b, events)
	})
	if len(s.slots) == 1 {
		a.Flush()
	}
}

// Flush sends the answers. Requests have their slots until their answers are sent, so that
// a client that does not read gets no further requests handled. Their frames count until then, because the answers have the events.
func (a *appendAnswer) Flush() {
	s := a.socket
	unsent := s.takeUnsent()
	count, wait := s.conn.Flush(context.Background())
	sent := func() {
		for _, release := range unsent {
			release()
		}
		s.freeSlots(count)
	}
	if wait == nil {
		sent()
		return
	}
	s.d.stacks.Go(func() {
		wait()
		sent()
	})
}

// addUnsent stores what has to be called when the next answers are sent.
func (s *socket) addUnsent(release func()) {
	if release == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent = append(s.unsent, release)
}

func (s *socket) takeUnsent() (unsent []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unsent, s.unsent = s.unsent, nil
	return unsent
}
