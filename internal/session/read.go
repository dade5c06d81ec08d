package session

import (
	"context"
	"iter"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/freshstack"
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

// Fact returns one event as it is stored.
func (s *Sessions) Fact(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error) {
	sess, err := s.visible(ctx, c, id)
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
	// Also a node that believes to own the session may be behind: after a pause, or while it is cut off.
	caught := s.opt.OtherNodes.ReadLog(ctx, sess.ID)
	sess, err = s.visible(ctx, c, id)
	if err == nil && seq > sess.Last && caught {
		// The server that answered for the log may be behind itself: the former leader of a stream, or one that has just started. So
		// the owner is asked, too, before the event counts as one that does not exist.
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

// reach waits until this node of a cluster has the event at which a reader begins.
func (s *Sessions) reach(ctx context.Context, c chat.Caller, id chat.SessionID, from *core.Start) error {
	if s.opt.OtherNodes == nil || from.Cursor == nil {
		return nil
	}
	_, err := s.GetAt(ctx, c, id, from.Cursor.Seq)
	return err
}

// Watch follows a session from a cursor. The sequence has the events since the cursor,
// then new ones as they happen. It ends with ctx or with an error, whose code says whether
// to try again. A reader that loses access gets an error.
func (s *Sessions) Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error] {
	g := &watcher{ctx: ctx, caller: c}
	return func(yield func(core.Batch, error) bool) {
		err := s.reach(ctx, c, id, &from)
		if err == nil {
			err = s.authorize(g, id)
		}
		if err != nil {
			refuse(yield, err)
			return
		}
		defer g.order.release()
		s.watch(g, &from, enc)(yield)
	}
}

// Follow is [Sessions.Watch] without a goroutine per reader. It calls sink.Take with what
// Watch would yield, and sink.Done at the end. Follow returns when the reader has ended or
// has to wait for new events; the hub calls sink when there are any.
func (s *Sessions) Follow(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding, sink core.Sink) {
	g := &watcher{ctx: ctx, caller: c, Sink: sink}
	err := s.reach(ctx, c, id, &from)
	if err == nil {
		err = s.authorize(g, id)
	}
	if err != nil {
		sink.Take(core.Batch{}, err)
		sink.Done()
		return
	}
	from.Guard = g.check
	s.live.Follow(ctx, g.order.id, from, enc, g)
}

//go:noinline
func (s *Sessions) watch(g *watcher, from *core.Start, enc core.Encoding) iter.Seq2[core.Batch, error] {
	from.Guard = g.check
	return s.live.Watch(g.ctx, g.order.id, *from, enc)
}

// watcher holds the state of one Watch or Follow call.
type watcher struct {
	ctx       context.Context // of the Watch or Follow call
	caller    chat.Caller
	order     *sequencer
	access    uint64 // the count of access changes at the last check
	core.Sink        // of Follow; nil for Watch
}

// TryTake implements [core.TrySink] for a sink that does.
func (g *watcher) TryTake(b core.Batch) bool {
	sink, ok := g.Sink.(core.TrySink)
	return ok && sink.TryTake(b)
}

// Done releases the sequencer.
func (g *watcher) Done() {
	g.order.release()
	g.Sink.Done()
}

// check checks the caller's access again if access to the session has changed.
func (g *watcher) check() error {
	now := g.order.access.Load()
	if now == g.access {
		return nil
	}
	g.access = now
	return g.order.sessions.sees(g.ctx, g.caller, g.order.id)
}

// refuse ends a watch with an error.
//
//go:noinline
func refuse(yield func(core.Batch, error) bool, err error) { yield(core.Batch{}, err) }

// authorize checks that a reader may see the session, and acquires its sequencer.
//
//go:noinline
func (s *Sessions) authorize(g *watcher, id chat.SessionID) error {
	if r := s.acquireCached(id); r != nil {
		g.access = r.access.Load()
		if sess := r.session.Load(); sess != nil && g.caller.RoleIn(sess) != "" {
			g.order = r
			return nil
		}
		r.release()
	}
	err := error(chat.Errorf(chat.Unavailable, "the session could not be looked up; try again in a moment"))
	freshstack.Run(func() {
		var sess chat.Session
		if sess, err = s.visible(g.ctx, g.caller, id); err != nil {
			return
		}
		r := s.acquire(sess.ID)
		g.order, g.access = r, r.access.Load()
		if now := r.session.Load(); now == nil || g.caller.RoleIn(now) == "" {
			// Access may have changed since the record was read.
			if err = s.sees(g.ctx, g.caller, sess.ID); err != nil {
				r.release()
			}
		}
	})
	return err
}

// sees returns an error if the caller may not see the session, as far as this node knows: the hub calls it and must not wait
// for other nodes. It is not inlined, because the session record would then be part of every reader's stack.
//
//go:noinline
func (s *Sessions) sees(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	_, err := s.visibleHere(ctx, c, id)
	return err
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
