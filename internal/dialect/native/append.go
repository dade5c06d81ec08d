package native

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// append appends to a session. The answer is sent by the goroutine that stores the events,
// together with those of other sockets, unless the client does not read.
func (s *socket) append(ctx context.Context, id json.RawMessage, session chat.SessionID, drafts []chat.Draft) error {
	if !s.takeSlot(ctx) {
		return nil
	}
	run, err := s.d.opt.Sessions.AppendThen(ctx, s.caller, session, drafts, &appendAnswer{ctx, s, id, session})
	if err != nil {
		s.freeSlots(1)
	} else if run != nil {
		s.d.stacks.Go(run)
	}
	return err
}

// appendAnswer is the answer to an append. It has the context of the connection.
type appendAnswer struct {
	ctx     context.Context
	socket  *socket
	id      json.RawMessage
	session chat.SessionID
}

// Answer answers the request. Answers to other requests under way may share the write.
func (a *appendAnswer) Answer(events []chat.Event, err error) {
	s := a.socket
	if err != nil {
		s.refuse(a.ctx, a.id, a.session, err)
		s.freeSlots(1)
		return
	}
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
// a client that does not read gets no further requests handled.
func (a *appendAnswer) Flush() {
	s := a.socket
	count, wait := s.conn.Flush(context.Background())
	if wait == nil {
		s.freeSlots(count)
		return
	}
	s.d.stacks.Go(func() {
		wait()
		s.freeSlots(count)
	})
}
