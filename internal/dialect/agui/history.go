package agui

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/dialect/agui/tanstack"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/turnlog"
)

// getRun serves TanStack's client: a run from its start, a thread's messages, and without a query what the agent can do.
func (d *Dialect) getRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	agent, err := d.agentName(c, r.PathValue("agentname"))
	if err != nil {
		return err
	}
	q := edge.NewQuery(r)
	runID, thread, limit, before := q.TextUpTo("runId", maxID), q.TextUpTo("threadId", maxID), q.Limit(200, 1000), q.Sequence("before", 1)
	if q.Err != nil {
		return q.Err
	}
	var t *target
	var out any
	f := variant{tanstack: true}
	switch last := r.Header.Get("Last-Event-ID"); {
	case runID != "" && last != "":
		t, err = d.resumeAfter(r.Context(), c, thread, runID, last, f)
	case runID != "":
		t, err = d.findRun(r.Context(), c, runID, thread, f)
	case thread != "":
		out, err = d.hydrate(r.Context(), c, thread, limit, before)
	default:
		out = map[string]any{"name": agent, "capabilities": capabilities(agent)}
	}
	if err != nil {
		return err
	}
	if t != nil {
		return d.stream(w, r, t)
	}
	d.HTTP.Send(w, r, http.StatusOK, out)
	return nil
}

// findRun finds a run by the id that a client gave it, or by the id of a turn. A client that joins a run may not say its thread; the
// caller's sessions that were active last are searched then.
func (d *Dialect) findRun(ctx context.Context, c chat.Caller, runID, thread string, f variant) (*target, error) {
	t := &target{caller: c, runID: runID, variant: f}
	if id, ok := chat.ParseID(chat.TurnPrefix, runID); ok {
		sess, seq, err := d.Sessions.ByID(ctx, c, id)
		if err != nil {
			return nil, noRun(err, runID)
		}
		t.session, t.thread = sess.ID, threadOf(&sess)
		return t, d.continueAt(ctx, t, seq)
	}
	var page chat.SessionPage
	var err error
	if thread == "" {
		page, err = d.Sessions.List(ctx, c, core.Filter{Limit: 50})
	} else {
		page.Sessions = make([]chat.Session, 1)
		page.Sessions[0], err = d.find(ctx, c, thread)
	}
	if err != nil {
		return nil, err
	}
	for i := range page.Sessions {
		s := &page.Sessions[i]
		if thread == "" && !s.Owner.Same(c.Actor) { // the run ids of others may be chosen to be equal
			continue
		}
		t.session, t.thread = s.ID, threadOf(s)
		for e, err := range d.Sessions.Events(ctx, c, s.ID, chat.Range{Limit: 200, Desc: true, Types: []string{
			chat.UserMessage{}.Type(), chat.UserInputResponse{}.Type(), chat.UserApprovalResponse{}.Type(), chat.UserPermissionResponse{}.Type(),
		}}) {
			if err != nil {
				return nil, err
			}
			if storedOf(&e).Run == runID {
				t.message = e.Seq
				return t, nil
			}
			if answered, _ := senderOf(&e); answered == runID {
				return t, d.continueAt(ctx, t, e.Seq)
			}
		}
	}
	return nil, errNoRun(runID)
}

// Bounds of a page of messages. A message of the assistant that has more is cut there.
const (
	maxHydrated      = 5000 // events
	maxHydratedBytes = 16 << 20
)

// hydrate returns the newest messages of a thread, or those before an event.
func (d *Dialect) hydrate(ctx context.Context, c chat.Caller, thread string, limit int, before chat.Seq) (*tanstack.Thread, error) {
	out := &tanstack.Thread{Messages: []tanstack.Message{}}
	sess, err := d.find(ctx, c, thread)
	if chat.CodeOf(err) == chat.NotFound {
		return out, nil // a thread that does not exist yet is empty
	}
	if err != nil {
		return nil, err
	}
	if before == 0 {
		if before, err = d.now(ctx, &target{caller: c, session: sess.ID, thread: thread, variant: variant{tanstack: true}}, out); err != nil {
			return nil, err
		}
	}
	out.Page, err = d.newest(ctx, c, sess.ID, limit, before, func(e *chat.Event, m *message) { out.Add(m, e.At.Time()) })
	return out, err
}

// newest calls each with the newest messages of a session, or with those before an event, the oldest first. The page is nil when there
// are no older ones.
func (d *Dialect) newest(ctx context.Context, c chat.Caller, id chat.SessionID, limit int, before chat.Seq, each func(e *chat.Event, m *message)) (page map[string]any, err error) {
	var events []chat.Event
	messages, size, ofAgent := 0, 0, false
	for e, err := range d.Sessions.Events(ctx, c, id, chat.Range{Before: before, Limit: maxHydrated + 1, Desc: true, Workstream: &mainLine, Types: messageTypes}) {
		if err != nil {
			return nil, err
		}
		_, user := e.Body.(chat.UserMessage)
		if user || !ofAgent {
			messages++
		}
		if size += len(e.Payload); len(events) > 0 && (messages > limit || len(events) == maxHydrated || size > maxHydratedBytes) {
			page = map[string]any{"truncated": true, "cursor": strconv.FormatUint(uint64(events[len(events)-1].Seq), 10)}
			break
		}
		events, ofAgent = append(events, e), !user
	}
	for _, e := range slices.Backward(events) {
		if m, ok := messageOf(&e); ok {
			each(&e, &m)
		}
	}
	return page, nil
}

// now sets the running run of a thread, or its open interrupts. It returns the event that begins the run: its messages come again when
// the page joins it.
func (d *Dialect) now(ctx context.Context, t *target, out *tanstack.Thread) (chat.Seq, error) {
	st, err := d.Sessions.State(ctx, t.caller, t.session)
	if err != nil || st.Line(mainLine).Turn == nil && len(st.Prompts) == 0 {
		return chat.MaxSeq, err
	}
	if t.base, err = turnlog.Last(ctx, d.Sessions, t.caller, t.session, st.Last); err != nil || t.base == nil {
		return chat.MaxSeq, err
	}
	enc, err := d.fold(ctx, t, 0, nil)
	if err != nil {
		return 0, err
	}
	if enc.run != nil {
		out.Active = map[string]string{"runId": enc.run.id}
		return enc.run.seq, nil
	}
	if o := openOutcome(enc.prompts, enc.variant, enc.last); len(o.Interrupts) > 0 {
		out.Interrupts = map[string]any{"runId": enc.last, "pending": o.Interrupts}
	}
	return chat.MaxSeq, nil
}

// fold returns the encoder after the events from the turn t.base to the one before another; 0 means to the last. each, unless it is
// nil, is called with the frames of each event.
func (d *Dialect) fold(ctx context.Context, t *target, before chat.Seq, each func(seq chat.Seq, f frame)) (*encoder, error) {
	enc := newEncoder(t.variant, t.thread)
	if err := d.prime(ctx, t, enc); err != nil {
		return nil, err
	}
	for e, err := range d.Sessions.Events(ctx, t.caller, t.session, chat.Range{After: t.base.Seq - 1, Before: before}) {
		if err != nil {
			return nil, err
		}
		for _, f := range enc.take(turnlog.Entry{At: e.At, Event: &e}) {
			if each != nil {
				each(e.Seq, f)
			}
		}
	}
	return enc, nil
}

// As returns an event as clients of this dialect see it: a list of frames, empty when nothing of the event is shown. The caller has
// checked access to the event.
func (d *Dialect) As(ctx context.Context, fact chat.Fact) (any, error) {
	out := []json.RawMessage{}
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	sess, err := d.Sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return nil, err
	}
	t := &target{caller: chat.Trusted, session: e.Session, thread: threadOf(&sess), variant: variant{v1: true}}
	if t.base, err = turnlog.Last(ctx, d.Sessions, t.caller, t.session, e.Seq); err != nil || t.base == nil {
		return out, err
	}
	_, err = d.fold(ctx, t, e.Seq+1, func(seq chat.Seq, f frame) {
		if seq == e.Seq {
			out = append(out, f.data)
		}
	})
	return out, err
}
