package session

import (
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// Read returns stored events; more says that the range has further ones.
func (s *Sessions) Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) (facts []chat.Fact, more bool, err error) {
	sess, err := s.find(ctx, c, id)
	if err != nil {
		return nil, false, err
	}
	return s.log.Read(ctx, sess.ID, r)
}

// Event returns one stored event.
func (s *Sessions) Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error) {
	sess, err := s.find(ctx, c, id)
	if err != nil {
		return chat.Fact{}, err
	}
	return s.log.Get(ctx, sess.ID, seq)
}

// Ends returns where the pieces of a finished block ended.
func (s *Sessions) Ends(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) ([]chat.End, error) {
	sess, err := s.find(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return s.log.Ends(ctx, sess.ID, seq)
}

// Watch follows a session from a cursor: first what was missed, then what
// happens, in one sequence that ends with ctx or with an error that says
// whether to come back. Who loses access stops seeing.
func (s *Sessions) Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from chat.Start, enc chat.Encoding) iter.Seq2[chat.Batch, error] {
	return func(yield func(chat.Batch, error) bool) {
		r, access, err := s.admit(ctx, c, id)
		if err != nil {
			refuse(yield, err)
			return
		}
		defer r.leave()
		for batch, err := range s.live.Watch(ctx, r.id, from, enc) {
			if now := r.access.Load(); err == nil && now != access {
				access = now
				if err := s.sees(ctx, c, r.id); err != nil {
					refuse(yield, err)
					return
				}
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// refuse ends a watch with an error.
//
//go:noinline
func refuse(yield func(chat.Batch, error) bool, err error) { yield(chat.Batch{}, err) }

// admit finds the room for a reader, and how often access to it had changed
// when it was seen that the reader may be there.
func (s *Sessions) admit(ctx context.Context, c chat.Caller, id chat.SessionID) (r *room, access uint64, err error) {
	if r := s.open(id); r != nil {
		access := r.access.Load()
		if sess := r.session.Load(); sess != nil && roleOf(c, sess) != "" {
			return r, access, nil
		}
		r.leave()
	}
	err = chat.Errorf(chat.Unavailable, "the session could not be looked up; try again in a moment")
	apart(func() {
		var sess chat.Session
		if sess, err = s.find(ctx, c, id); err != nil {
			return
		}
		r = s.room(sess.ID)
		access = r.access.Load()
		if now := r.session.Load(); now == nil || roleOf(c, now) == "" {
			// Who may see it may have changed since it was looked up.
			if err = s.sees(ctx, c, sess.ID); err != nil {
				r.leave()
			}
		}
	})
	return r, access, err
}

// sees reports why the caller may not see the session, or nil. Inlined, the
// record that it looks at would become part of every reader's stack.
//
//go:noinline
func (s *Sessions) sees(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	_, err := s.visible(ctx, c, id)
	return err
}

// Blocks returns the blocks that are being written.
func (s *Sessions) Blocks(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.Block, error) {
	sess, err := s.find(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return s.live.Blocks(sess.ID), nil
}

// State returns a copy of the session's state. It waits for what is being
// written at the moment.
func (s *Sessions) State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error) {
	r, err := s.enter(ctx, c, id)
	if err != nil {
		return nil, err
	}
	defer r.leave()
	var st *chat.State
	err = r.do(ctx, &request{look: func(state *chat.State) error {
		st = state.Clone()
		return allow(c, &st.Session, chat.Viewer)
	}})
	if err != nil {
		return nil, err
	}
	return st, nil
}
