package nemo

import (
	"context"

	"github.com/parley-hq/parley/chat"
)

// start finds where the thread starts.
func (t *subscription) start(ctx context.Context) (chat.Start, error) {
	at, known, err := t.findSession(ctx)
	if err != nil {
		return chat.Start{}, err
	}
	st, err := t.s.d.opt.Sessions.State(ctx, t.caller, t.session)
	if err != nil {
		t.s.d.points.depart(t, at, connectionLost)
		return chat.Start{}, err
	}
	line := st.Line("")
	if !known || at.Cursor.Seq > st.Last {
		// Nothing is known of this client: it gets what is under way.
		at = position{Cursor: chat.Cursor{Seq: st.Last}, Base: st.Last + 1}
		if line.Turn != nil {
			at = position{Cursor: chat.Cursor{Seq: line.Turn.Trigger - 1}, Base: line.Turn.Trigger}
		}
	}
	at = t.fixStart(at)
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
	t.fold = newFold(t.session, at.Cursor)
	t.fold.historyEnd, t.fold.wholeTexts, t.fold.noticesFrom = st.Last, t.s.schema.wholeTexts, at.Held
	if line.Turn != nil {
		t.fold.runningTurn = line.Turn.ID
	}
	t.mu.Lock()
	if t.s.schema.wholeTexts {
		t.keptPrompt = at.Shown // a bubble like others: the page keeps it, and shows a second one
	}
	t.beforeAcks, t.written, t.acknowledged = at, at, at
	t.mu.Unlock()
	t.lastPosition = at
	t.s.d.points.save(t, at)
	return chat.Start{Cursor: &chat.Cursor{Seq: max(base, 1) - 1}}, nil
}

// findSession finds the session and where the client stands in it.
func (t *subscription) findSession(ctx context.Context) (at position, known bool, err error) {
	defer t.stopWaiting()
	waited := false
	for t.session == "" {
		sess, err := t.s.d.opt.Sessions.Own(ctx, t.caller, t.enc.conversation)
		if err == nil {
			t.session = sess.ID
			if waited {
				// The client has nothing of it, and no place that somebody left is its own.
				t.s.d.points.add(t.resumeKey(), t)
				return position{Base: 1}, true, nil
			}
			at, known = t.s.d.points.resume(ctx, t.resumeKey(), t)
			if !known && sess.CreatedAt >= t.since {
				at, known = position{Base: 1}, true // it began while the client was on its way here
			}
			return at, known, nil
		}
		if chat.CodeOf(err) != chat.NotFound {
			return at, false, err
		}
		// It will begin with a message, perhaps, from here or from another tab.
		waited = true
		select {
		case <-t.messaged:
			t.session = t.firstMessage.Session
		case <-t.wakeup:
		case <-ctx.Done():
			return at, false, context.Cause(ctx)
		}
	}
	select {
	case <-t.messaged:
		at = justBefore(*t.firstMessage)
	case <-ctx.Done():
		return at, false, context.Cause(ctx)
	}
	t.s.d.points.addSender(t.resumeKey(), t)
	return at, true, nil
}

// justBefore is the place right before an event.
func justBefore(e chat.Event) position {
	return position{Cursor: chat.Cursor{Seq: e.Seq - 1}, Base: e.Seq}
}

// resumeKey binds a place to who the client is: the identity, the browser, and the
// session.
func (t *subscription) resumeKey() string { return t.s.resumeKey(t.caller, t.session) }

func (s *socket) resumeKey(c chat.Caller, id chat.SessionID) string {
	return derivedID(c.In()+"\x00"+c.Actor.Key()+"\x00"+s.browserID, string(id))
}
