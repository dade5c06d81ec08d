package native

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// watch begins to follow a session. If it is followed already, the new watch replaces the
// old one: no frame of the old watch comes after the answer to the new one.
func (s *socket) watch(ctx context.Context, f clientFrame) error {
	start, err := f.start()
	if err != nil {
		return err
	}
	// Frames carry the session's id, also when the client used an alias; the answer
	// has both.
	sess, err := s.d.opt.Sessions.Get(ctx, s.caller, f.Session)
	if err != nil {
		return err
	}
	return s.begin(ctx, sess.ID, f.ID, start)
}

// begin starts the watch. It gets only the values it needs, so that the frame and the
// session record are not kept in memory.
func (s *socket) begin(ctx context.Context, id chat.SessionID, frame json.RawMessage, start core.Start) error {
	s.leave(id)
	w := &watching{s: s, id: id, frame: frame}
	w.ctx, w.end = context.WithCancel(ctx)
	s.mu.Lock()
	full := len(s.watches) >= maxWatches
	if !full {
		s.watches[id] = w
	}
	s.mu.Unlock()
	if full {
		w.end()
		return chat.Errorf(chat.SlowDown, "one connection follows at most %d sessions: open another one", maxWatches)
	}
	s.group.Add(1)
	go s.d.opt.Sessions.Follow(w.ctx, s.caller, id, start, ws{}, w)
	return nil
}

// leave ends a watch. A frame that is being written is finished before anything else is
// sent; no other frame of the watch follows.
func (s *socket) leave(id chat.SessionID) {
	s.mu.Lock()
	w := s.watches[id]
	delete(s.watches, id)
	s.mu.Unlock()
	if w != nil {
		w.end()
	}
}

func (s *socket) unwatch(ctx context.Context, f clientFrame) error {
	s.leave(f.Session)
	s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session})
	return nil
}

// watching writes the frames of one watch. A slow client delays only its own watches:
// the log keeps what it lacks.
type watching struct {
	s     *socket
	ctx   context.Context // of the watch
	end   context.CancelFunc
	id    chat.SessionID
	frame json.RawMessage // id of the request; not needed once it is answered
	begun bool
}

// Take writes a batch, or the error that ends the watch; it reports whether to continue.
func (w *watching) Take(b core.Batch, err error) bool {
	s := w.s
	switch {
	case err != nil && !w.begun:
		w.begun = true
		s.refuse(w.ctx, w.frame, w.id, err)
		return false
	case err != nil:
		info, retry := edge.InfoOf(err), retryable(chat.CodeOf(err))
		s.send(w.ctx, serverFrame{Op: "bye", Session: w.id, Error: &info, Retry: &retry})
		return false
	case !w.begun:
		hello := appendWatched(nil, w.frame, helloFrame{w.id, b.Last, b.Cursor, s.d.now()})
		if s.conn.WriteText(w.ctx, hello) != nil {
			return false
		}
		w.begun, w.frame = true, nil
		return true
	case len(b.Bytes) > 0:
		return s.conn.Write(w.ctx, b.Bytes) == nil // refused when the watch has ended
	}
	return true
}

// TryTake writes a batch if the connection takes it without waiting.
func (w *watching) TryTake(b core.Batch) bool {
	return w.begun && len(b.Bytes) > 0 && w.s.conn.TryWrite(w.ctx, b.Bytes)
}

// Done ends the watch.
func (w *watching) Done() {
	s := w.s
	defer s.group.Done()
	w.end()
	if !w.begun {
		s.refuse(w.ctx, w.frame, w.id, chat.Errorf(chat.Conflict, "the watch was given up before it began"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[w.id] == w {
		delete(s.watches, w.id)
	}
}
