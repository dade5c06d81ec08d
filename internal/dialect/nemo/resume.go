package nemo

import (
	"context"

	"github.com/parley-hq/parley/chat"
)

// begin finds where the thread starts.
func (t *thread) begin(ctx context.Context) (chat.Start, error) {
	at, known, err := t.enter(ctx)
	if err != nil {
		return chat.Start{}, err
	}
	st, err := t.s.d.opt.Sessions.State(ctx, t.caller, t.session)
	if err != nil {
		t.s.d.desk.leave(t, at, cutOff)
		return chat.Start{}, err
	}
	line := st.Line("")
	if !known || at.Cursor.Seq > st.Last {
		// Nothing is known of this client: it gets what is under way.
		at = place{Cursor: chat.Cursor{Seq: st.Last}, Base: st.Last + 1}
		if line.Turn != nil {
			at = place{Cursor: chat.Cursor{Seq: line.Turn.Trigger - 1}, Base: line.Turn.Trigger}
		}
	}
	at = t.fix(at)
	base := min(at.Base, at.Cursor.Seq+1)
	if line.Turn != nil {
		base = min(base, line.Turn.Trigger)
	}
	for _, seq := range line.Queue {
		base = min(base, seq)
	}
	for _, p := range st.Prompts {
		base = min(base, p.Seq) // open ones are shown again
	}
	t.feed = newFeed(t.session, at.Cursor)
	t.feed.replay, t.feed.blocks, t.feed.held = st.Last, t.s.words.bubbles, at.Held
	if line.Turn != nil {
		t.feed.running = line.Turn.ID
	}
	t.mu.Lock()
	if t.s.words.bubbles {
		t.kept = at.Shown // a bubble like others: the page keeps it, and shows a second one
	}
	t.older, t.written, t.arrived = at, at, at
	t.mu.Unlock()
	t.before = at
	t.s.d.desk.note(t, at)
	return chat.Start{Cursor: &chat.Cursor{Seq: max(base, 1) - 1}}, nil
}

// enter finds the session and where the client stands in it.
func (t *thread) enter(ctx context.Context) (at place, known bool, err error) {
	defer t.unhope()
	waited := false
	for t.session == "" {
		sess, err := t.s.d.opt.Sessions.Own(ctx, t.caller, t.voice.conversation)
		if err == nil {
			t.session = sess.ID
			if waited {
				// The client has nothing of it, and no place that somebody left is its own.
				t.s.d.desk.arrive(t.deskKey(), t)
				return place{Base: 1}, true, nil
			}
			at, known = t.s.d.desk.rejoin(ctx, t.deskKey(), t)
			if !known && sess.CreatedAt >= t.since {
				at, known = place{Base: 1}, true // it began while the client was on its way here
			}
			return at, known, nil
		}
		if chat.CodeOf(err) != chat.NotFound {
			return at, false, err
		}
		// It will begin with a message, perhaps, from here or from another tab.
		waited = true
		select {
		case <-t.spoken:
			t.session = t.first.Session
		case <-t.poke:
		case <-ctx.Done():
			return at, false, context.Cause(ctx)
		}
	}
	select {
	case <-t.spoken:
		at = ahead(*t.first)
	case <-ctx.Done():
		return at, false, context.Cause(ctx)
	}
	t.s.d.desk.join(t.deskKey(), t)
	return at, true, nil
}

// ahead is the place right before an event.
func ahead(e chat.Event) place { return place{Cursor: chat.Cursor{Seq: e.Seq - 1}, Base: e.Seq} }

// deskKey binds a place to who the client is: the identity, the browser, and the
// session.
func (t *thread) deskKey() string { return t.s.deskKey(t.caller, t.session) }

func (s *socket) deskKey(c chat.Caller, id chat.SessionID) string {
	return uid(c.In()+"\x00"+c.Actor.Key()+"\x00"+s.browser, string(id))
}
