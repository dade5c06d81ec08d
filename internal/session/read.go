package session

import (
	"context"
	"iter"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Read returns stored events; more reports whether the range has further events.
func (s *Sessions) Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) (facts []chat.Fact, more bool, err error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil {
		return nil, false, err
	}
	return s.log.Read(ctx, sess.ID, r)
}

// Facts reads a range of stored events page by page, as [chat.Facts] describes.
func (s *Sessions) Facts(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Fact, error] {
	return chat.Facts(r, func(r chat.Range) ([]chat.Fact, bool, error) { return s.Read(ctx, c, id, r) })
}

// Events is [Sessions.Facts] with decoded events.
func (s *Sessions) Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error] {
	return chat.Events(s.Facts(ctx, c, id, r))
}

// stored is Facts without an access check.
func (s *Sessions) stored(ctx context.Context, id chat.SessionID, r chat.Range) iter.Seq2[chat.Fact, error] {
	return chat.Facts(r, func(r chat.Range) ([]chat.Fact, bool, error) { return s.log.Read(ctx, id, r) })
}

// event returns a stored event without an access check.
func (s *Sessions) event(ctx context.Context, id chat.SessionID, seq chat.Seq) (chat.Event, error) {
	fact, err := s.log.Get(ctx, id, seq)
	if err != nil {
		return chat.Event{}, err
	}
	return fact.Event()
}

// Fact returns one event as it is stored, also one that another node has just stored.
func (s *Sessions) Fact(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error) {
	sess, err := s.GetAt(ctx, c, id, seq)
	if err != nil {
		return chat.Fact{}, err
	}
	return s.log.Get(ctx, sess.ID, seq)
}

// Event is [Sessions.Fact] with a decoded event.
func (s *Sessions) Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error) {
	fact, err := s.Fact(ctx, c, id, seq)
	if err != nil {
		return chat.Event{}, err
	}
	return fact.Event()
}

// Sent returns the event that the caller has stored with a client id, or nil.
func (s *Sessions) Sent(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil || clientID == "" {
		return nil, err
	}
	key, ok, err := s.log.ByClientID(ctx, sess.ID, c.Actor.Key(), clientID)
	if err != nil || !ok {
		return nil, err
	}
	e, err := s.event(ctx, sess.ID, key.Seq)
	return &e, err
}

// Ends returns the end positions of the pieces of a finished block.
func (s *Sessions) Ends(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) ([]chat.End, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return s.log.Ends(ctx, sess.ID, seq)
}

// Latest is Get for a caller that looks for something in the session that this node does not have. In a cluster another node may have
// stored it: Latest waits until this node has what the owner of the session has.
func (s *Sessions) Latest(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil || s.opt.OtherNodes == nil {
		return sess, err
	}
	if !s.opt.OtherNodes.CatchUp(ctx, core.NumberFor(sess.ID, 0)) {
		return chat.Session{}, ErrBehind
	}
	return s.visible(ctx, c, id)
}

// GetAt is Get for a caller that has read the event with a sequence. In a cluster it may have read it on another node: GetAt waits
// until this node has it too.
func (s *Sessions) GetAt(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Session, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil || seq <= sess.Last || s.opt.OtherNodes == nil {
		return sess, err
	}
	// The former owner may be behind, too: it gets the claim of the next one only after a pause, or when it is no longer cut off.
	caught := s.opt.OtherNodes.ReadLog(ctx, sess.ID)
	sess, err = s.visible(ctx, c, id)
	if err == nil && seq > sess.Last && caught {
		// The server that answered for the log may be behind, too: the former leader of a stream, or one that has just started. So
		// the owner is asked before the event counts as missing.
		caught = s.opt.OtherNodes.CatchUp(ctx, core.NumberFor(sess.ID, 0))
		sess, err = s.visible(ctx, c, id)
	}
	if err == nil && seq > sess.Last && !caught {
		err = ErrBehind
	}
	return sess, err
}

// GetAtPosition is Get for a caller that has read everything up to a position, also text that is being written. In a cluster it may
// have read it on another node: GetAtPosition waits until this node has it too.
func (s *Sessions) GetAtPosition(ctx context.Context, c chat.Caller, id chat.SessionID, at chat.At) (chat.Session, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil || s.opt.OtherNodes == nil {
		return sess, err
	}
	if last, err := s.event(ctx, sess.ID, sess.Last); err != nil || at <= last.At {
		return sess, err
	}
	caught := s.opt.OtherNodes.CatchUpText(ctx, sess.ID)
	if sess, err = s.visible(ctx, c, id); err == nil && !caught && !s.hasText(sess.ID, at) {
		err = ErrBehind
	}
	return sess, err
}

// hasText reports whether the session has unfinished text at or after a position.
func (s *Sessions) hasText(id chat.SessionID, at chat.At) bool {
	return slices.ContainsFunc(s.live.Blocks(id), func(b chat.Block) bool {
		return len(b.Ends) > 0 && b.Ends[len(b.Ends)-1].At >= at
	})
}

// Blocks returns the open blocks.
func (s *Sessions) Blocks(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.Block, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return s.live.Blocks(sess.ID), nil
}

// State returns a copy of the session's state, after the requests that are queued before
// this call.
func (s *Sessions) State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error) {
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return nil, err
	}
	defer r.release()
	var st *chat.State
	err = r.do(ctx, &request{look: func(state *chat.State) error {
		st = state.Clone()
		return c.May(&st.Session, chat.Viewer)
	}})
	if err != nil {
		return nil, err
	}
	return st, nil
}
