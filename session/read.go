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
		sess, err := s.find(ctx, c, id)
		if err != nil {
			yield(chat.Batch{}, err)
			return
		}
		r := s.room(sess.ID)
		defer r.leave()
		access := r.access.Load()
		for batch, err := range s.live.Watch(ctx, sess.ID, from, enc) {
			if now := r.access.Load(); err == nil && now != access {
				access = now
				if _, err := s.find(ctx, c, sess.ID); err != nil {
					yield(chat.Batch{}, err)
					return
				}
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
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
	err = r.do(ctx, &request{look: func(state *chat.State) { st = state.Clone() }})
	return st, err
}
