package session

import (
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/freshstack"
)

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

// sees returns an error if the caller may not see the session, without a question to other nodes: the hub calls it and must not
// wait. It is not inlined, because the session record would then be part of every reader's stack.
//
//go:noinline
func (s *Sessions) sees(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	_, err := s.visibleHere(ctx, c, id)
	return err
}
