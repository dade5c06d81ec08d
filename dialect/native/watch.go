package native

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// watch begins to follow a session; one that is followed already is followed
// anew from the cursor given, and nothing of the old watch comes after the
// answer to the new one.
func (s *socket) watch(ctx context.Context, f clientFrame) error {
	start, err := f.start()
	if err != nil {
		return err
	}
	// Frames carry the session's own id, also where the client knows it by
	// another: the answer tells.
	sess, err := s.d.opt.Sessions.Get(ctx, s.caller, f.Session)
	if err != nil {
		return err
	}
	return s.begin(ctx, sess.ID, f.ID, start)
}

// begin starts the write loop of a watch. It gets only what the loop needs, and
// the frame and the record that were looked at do not stay with it.
func (s *socket) begin(ctx context.Context, id chat.SessionID, frame json.RawMessage, start chat.Start) error {
	s.leave(id)
	own, end := context.WithCancel(ctx)
	w := &watching{end: end, done: make(chan struct{})}
	s.mu.Lock()
	full := len(s.watches) >= maxWatches
	if !full {
		s.watches[id] = w
	}
	s.mu.Unlock()
	if full {
		end()
		return chat.Errorf(chat.SlowDown, "one connection follows at most %d sessions: open another one", maxWatches)
	}
	s.group.Go(func() {
		defer close(w.done)
		defer end()
		s.follow(own, id, frame, start)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.watches[id] == w {
			delete(s.watches, id)
		}
	})
	return nil
}

// leave ends a watch and returns when nothing more of it will be sent.
func (s *socket) leave(id chat.SessionID) (was bool) {
	s.mu.Lock()
	w := s.watches[id]
	delete(s.watches, id)
	s.mu.Unlock()
	if w == nil {
		return false
	}
	w.end()
	<-w.done
	return true
}

func (s *socket) unwatch(ctx context.Context, f clientFrame) error {
	if !s.leave(f.Session) {
		if sess, err := s.d.opt.Sessions.Get(ctx, s.caller, f.Session); err == nil {
			s.leave(sess.ID)
		}
	}
	s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session})
	return nil
}

// follow is the write loop of one watch. A slow client holds it up, and nothing
// else: what it lacks stays in the log.
func (s *socket) follow(ctx context.Context, id chat.SessionID, frame json.RawMessage, start chat.Start) {
	begun := false
	for batch, err := range s.seen(ctx, id, start) {
		if !s.pass(ctx, id, frame, &batch, err, begun) {
			return
		}
		begun = true
	}
	if !begun {
		s.refuse(ctx, frame, id, chat.Errorf(chat.Conflict, "the watch was given up before it began"))
	}
}

//go:noinline
func (s *socket) seen(ctx context.Context, id chat.SessionID, start chat.Start) iter.Seq2[chat.Batch, error] {
	return s.d.opt.Sessions.Watch(ctx, s.caller, id, start, ws{})
}

// pass writes a batch, or why the watch ends; it reports whether to go on.
//
//go:noinline
func (s *socket) pass(ctx context.Context, id chat.SessionID, frame json.RawMessage, b *chat.Batch, err error, begun bool) bool {
	switch {
	case err != nil && !begun:
		s.refuse(ctx, frame, id, err)
		return false
	case err != nil:
		info, retry := infoOf(err), retryable(chat.CodeOf(err))
		s.send(ctx, serverFrame{Op: "bye", Session: id, Error: &info, Retry: &retry})
		return false
	case !begun:
		s.write(ctx, appendWatched(nil, frame, helloFrame{id, b.Last, b.Cursor, s.d.now()}))
		return true
	case len(b.Bytes) > 0:
		return s.conn.Write(ctx, b.Bytes) == nil
	}
	return true
}
