package agui

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/turnlog"
)

// getRun serves TanStack's client: a run from its start, a thread's messages, and without a query what the agent can do.
func (d *Dialect) getRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	agent, err := d.agentName(c, r.PathValue("agentname"))
	if err != nil {
		return err
	}
	q := edge.NewQuery(r)
	runID, thread, limit, before := q.Text("runId"), q.Text("threadId"), q.Limit(200, 1000), q.Sequence("before", 1)
	if q.Err != nil {
		return q.Err
	}
	switch {
	case runID != "":
		t, err := d.findRun(r.Context(), c, runID, thread, r.Header.Get("Last-Event-ID"), variantOf(r, ""))
		if err != nil {
			return err
		}
		return d.stream(w, r, t)
	case thread != "":
		page, err := d.hydrate(r.Context(), c, thread, limit, before)
		if err != nil {
			return err
		}
		d.HTTP.Send(w, r, http.StatusOK, page)
		return nil
	}
	d.HTTP.Send(w, r, http.StatusOK, map[string]any{"name": agent, "capabilities": capabilities(agent)})
	return nil
}

// findRun finds a run by the id that a client gave it, or by the id of a turn. A client that joins a run may not say its thread; the
// caller's sessions that were active last are searched then.
func (d *Dialect) findRun(ctx context.Context, c chat.Caller, runID, thread, last string, f variant) (*target, error) {
	f.tanstack = true
	if last != "" {
		return d.resumeAfter(ctx, c, thread, runID, last, f)
	}
	t := &target{caller: c, runID: runID, variant: f}
	if id, ok := chat.ParseID(chat.TurnPrefix, runID); ok {
		sess, seq, err := d.Sessions.ByID(ctx, c, id)
		if err != nil {
			return nil, errNoRun(runID)
		}
		t.session, t.thread = sess.ID, threadOf(&sess)
		return t, d.continueAt(ctx, t, seq)
	}
	var candidates []chat.Session
	if thread != "" {
		sess, err := d.find(ctx, c, thread)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, sess)
	} else {
		page, err := d.Sessions.List(ctx, c, chat.Filter{Limit: 50})
		if err != nil {
			return nil, err
		}
		for _, sess := range page.Sessions {
			if sess.Owner.Same(c.Actor) { // the run ids of others may be chosen to be equal
				candidates = append(candidates, sess)
			}
		}
	}
	for i := range candidates {
		e, err := d.runIn(ctx, c, candidates[i].ID, runID)
		if err != nil {
			return nil, err
		}
		if e != nil {
			t.session, t.thread = candidates[i].ID, threadOf(&candidates[i])
			if _, ok := e.Body.(chat.UserMessage); ok {
				t.message = e.Seq
				return t, nil
			}
			return t, d.continueAt(ctx, t, e.Seq)
		}
	}
	return nil, errNoRun(runID)
}

// runIn returns the message or answer of a session that was sent with a run's id, nil when there is none.
func (d *Dialect) runIn(ctx context.Context, c chat.Caller, id chat.SessionID, runID string) (*chat.Event, error) {
	for e, err := range d.Sessions.Events(ctx, c, id, chat.Range{Limit: 200, Desc: true, Types: []string{
		chat.UserMessage{}.Type(), chat.UserInputResponse{}.Type(), chat.UserApprovalResponse{}.Type(), chat.UserPermissionResponse{}.Type(),
	}}) {
		if answered, _ := senderOf(&e); err != nil || answered == runID || storedOf(&e).Run == runID {
			return &e, err
		}
	}
	return nil, nil
}

// hydration is what TanStack's client loads when a page opens.
type hydration struct {
	Messages   []uiMessage `json:"messages"`
	Active     any         `json:"activeRun"` // {runId} or null
	Interrupts *pending    `json:"interrupts"`
	Page       *pageInfo   `json:"page,omitempty"`
}

type uiMessage struct {
	ID      string    `json:"id"`
	Role    string    `json:"role"`
	Parts   []uiPart  `json:"parts"`
	Created time.Time `json:"createdAt"`
}

type uiPart struct {
	Type      string `json:"type"` // text, thinking, tool-call, tool-result
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	State     string `json:"state,omitempty"`
	CallID    string `json:"toolCallId,omitempty"`
}

type pending struct {
	RunID   string      `json:"runId"`
	Pending []interrupt `json:"pending"`
}

type pageInfo struct {
	Truncated bool   `json:"truncated"`
	Cursor    string `json:"cursor,omitempty"`
}

// uiTypes are the events that pages of TanStack show as messages.
var uiTypes = []string{
	chat.UserMessage{}.Type(), chat.AgentText{}.Type(), chat.AgentThinking{}.Type(), chat.AgentToolCall{}.Type(), chat.AgentToolResult{}.Type(), chat.AgentToolError{}.Type(),
}

// Bounds of a page of messages. A message of the assistant that has more is cut there.
const (
	maxHydrated      = 5000 // events
	maxHydratedBytes = 16 << 20
)

// hydrate returns the newest messages of a thread, or those before an event.
func (d *Dialect) hydrate(ctx context.Context, c chat.Caller, thread string, limit int, before chat.Seq) (*hydration, error) {
	out := &hydration{Messages: []uiMessage{}}
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
	var events []chat.Event
	messages, size, ofAgent := 0, 0, false
	for e, err := range d.Sessions.Events(ctx, c, sess.ID, chat.Range{Before: before, Limit: maxHydrated + 1, Desc: true, Workstream: &mainLine, Types: uiTypes}) {
		if err != nil {
			return nil, err
		}
		_, user := e.Body.(chat.UserMessage)
		if user || !ofAgent {
			messages++
		}
		if size += len(e.Payload); len(events) > 0 && (messages > limit || len(events) == maxHydrated || size > maxHydratedBytes) {
			out.Page = &pageInfo{Truncated: true, Cursor: strconv.FormatUint(uint64(events[len(events)-1].Seq), 10)}
			break
		}
		events, ofAgent = append(events, e), !user
	}
	for i := range slices.Backward(events) {
		out.Messages = appendUI(out.Messages, &events[i])
	}
	return out, nil
}

// now sets the running run of a thread, or its open interrupts. It returns the event that begins the run: its messages come again when
// the page joins it.
func (d *Dialect) now(ctx context.Context, t *target, out *hydration) (chat.Seq, error) {
	st, err := d.Sessions.State(ctx, t.caller, t.session)
	if err != nil || st.Line(mainLine).Turn == nil && len(st.Prompts) == 0 {
		return chat.MaxSeq, err
	}
	if t.base, err = turnlog.Last(ctx, d.Sessions, t.caller, t.session, st.Last); err != nil || t.base == nil {
		return chat.MaxSeq, err
	}
	enc, err := d.folded(ctx, t, nil)
	if err != nil {
		return 0, err
	}
	if enc.run != nil {
		out.Active = map[string]string{"runId": enc.run.id}
		return enc.run.seq, nil
	}
	if o := openOutcome(enc.prompts, enc.variant, enc.last); len(o.Interrupts) > 0 {
		out.Interrupts = &pending{RunID: enc.last, Pending: o.Interrupts}
	}
	return chat.MaxSeq, nil
}

// folded is the encoder after all entries from the turn t.base that are stored now. each is called with the frames of each entry.
func (d *Dialect) folded(ctx context.Context, t *target, each func([]frame)) (*encoder, error) {
	enc := newEncoder(t.variant, t.thread)
	if err := d.prime(ctx, t, enc); err != nil {
		return nil, err
	}
	err := turnlog.Read(ctx, d.Sessions, t.caller, t.session, t.base.Seq-1, 0, nil, func(entries []turnlog.Entry, live bool) (bool, error) {
		for _, e := range entries {
			if frames := enc.take(e); each != nil {
				each(frames)
			}
		}
		return live, nil
	})
	return enc, err
}

// appendUI adds an event to the messages of a page. What the agent says and does between two messages of people is one message.
func appendUI(all []uiMessage, e *chat.Event) []uiMessage {
	m, ok := messageOf(e)
	if !ok {
		return all
	}
	content := contentText(m.Content)
	p := uiPart{Type: "text", Content: content}
	switch {
	case m.Role == "user":
		return append(all, uiMessage{ID: m.ID, Role: "user", Parts: []uiPart{p}, Created: e.At.Time()})
	case m.Role == "reasoning":
		p.Type = "thinking"
	case m.Role == "tool":
		p = uiPart{Type: "tool-result", CallID: m.CallID, Content: content, State: "complete"}
		if m.Error != "" {
			p.State = "error"
		}
	case len(m.Calls) > 0:
		c := &m.Calls[0]
		p = uiPart{Type: "tool-call", ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments, State: "input-complete"}
	}
	if n := len(all); n == 0 || all[n-1].Role != "assistant" {
		all = append(all, uiMessage{ID: m.ID, Role: "assistant", Created: e.At.Time()})
	}
	last := &all[len(all)-1]
	last.Parts = append(last.Parts, p)
	return all
}
