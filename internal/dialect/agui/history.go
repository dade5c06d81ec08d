package agui

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/turnlog"
)

// object is a value as JSON. It holds only what can be written.
func object(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return emptyObject
	}
	return b
}

// getRun serves TanStack's client: a run from its start, a thread's messages, and without a query what the agent can do.
func (d *Dialect) getRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	agent, err := d.agentName(c, r.PathValue("agentname"))
	if err != nil {
		return err
	}
	q := edge.NewQuery(r)
	runID, thread, limit, before := q.Text("runId"), q.Text("threadId"), q.Limit(200, 1000), q.Text("before")
	if q.Err != nil {
		return q.Err
	}
	switch {
	case runID != "":
		t, err := d.findRun(r.Context(), c, runID, thread, r.Header.Get("Last-Event-ID"), formOf(r, ""))
		if err != nil {
			return err
		}
		return d.stream(w, r, t)
	case thread != "":
		page, err := d.hydrate(r.Context(), c, thread, limit, before)
		if err != nil {
			return err
		}
		d.http.Send(w, r, http.StatusOK, page)
		return nil
	}
	d.http.Send(w, r, http.StatusOK, map[string]any{"name": agent, "capabilities": capabilities(agent)})
	return nil
}

// findRun finds a run by the id that a client gave it, or by the id of a turn. A client that joins a run may not say its thread; the
// caller's sessions that were active last are searched then.
func (d *Dialect) findRun(ctx context.Context, c chat.Caller, runID, thread, last string, f form) (*target, error) {
	f.tanstack = true
	t := &target{caller: c, runID: runID, form: f}
	if id, ok := chat.ParseID(chat.TurnPrefix, runID); ok {
		sess, seq, err := d.opt.Sessions.ByID(ctx, c, id)
		if err != nil {
			return nil, errNoRun(runID)
		}
		return d.joinAt(ctx, t, &sess, seq, last)
	}
	var candidates []chat.Session
	if thread != "" {
		sess, err := d.opt.Sessions.Own(ctx, c, thread)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, sess)
	} else {
		page, err := d.opt.Sessions.List(ctx, c, chat.Filter{Limit: 50})
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
			return d.joinAt(ctx, t, &candidates[i], e.Seq, last)
		}
	}
	return nil, errNoRun(runID)
}

// joinAt is the run that begins with, or because of, an event.
func (d *Dialect) joinAt(ctx context.Context, t *target, sess *chat.Session, seq chat.Seq, last string) (*target, error) {
	t.session, t.thread = sess.ID, threadOf(sess)
	fact, err := d.opt.Sessions.Event(ctx, t.caller, sess.ID, seq)
	if err != nil {
		return nil, err
	}
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	if last != "" {
		r, err := d.resumeAfter(ctx, t.caller, t.thread, t.runID, last, t.form)
		if err == nil {
			r.session = sess.ID
		}
		return r, err
	}
	if _, ok := e.Body.(chat.UserMessage); ok {
		t.message = seq
		return t, nil
	}
	return t, d.continueAt(ctx, t, seq)
}

// runIn returns the message or answer of a session that was sent with a run's id, nil when there is none.
func (d *Dialect) runIn(ctx context.Context, c chat.Caller, id chat.SessionID, runID string) (*chat.Event, error) {
	for e, err := range d.opt.Sessions.Events(ctx, c, id, chat.Range{Limit: 200, Desc: true, Types: []string{
		chat.UserMessage{}.Type(), chat.UserInputResponse{}.Type(), chat.UserApprovalResponse{}.Type(), chat.UserPermissionResponse{}.Type(),
	}}) {
		if err != nil || storedOf(&e).Run == runID || runOfAnswer(&e) == runID {
			return &e, err
		}
	}
	return nil, nil
}

// hydration is what TanStack's client loads when a page opens.
type hydration struct {
	Messages   []uiMessage `json:"messages"`
	Active     *activeRun  `json:"activeRun"`
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

type activeRun struct {
	ID string `json:"runId"`
}

type pending struct {
	RunID   string      `json:"runId"`
	Pending []interrupt `json:"pending"`
}

type pageInfo struct {
	Truncated bool   `json:"truncated"`
	Cursor    string `json:"cursor,omitempty"`
}

// hydrate returns the newest messages of a thread, or those before a message.
func (d *Dialect) hydrate(ctx context.Context, c chat.Caller, thread string, limit int, before string) (*hydration, error) {
	out := &hydration{Messages: []uiMessage{}}
	sess, err := d.opt.Sessions.Own(ctx, c, thread)
	if chat.CodeOf(err) == chat.NotFound {
		return out, nil // a thread that does not exist yet is empty
	}
	if err != nil {
		return nil, err
	}
	enc, err := d.folded(ctx, &target{caller: c, session: sess.ID, thread: thread, form: form{tanstack: true}}, func(e *chat.Event, _ []frame) {
		if e != nil && e.Workstream == mainLine {
			out.Messages = appendUI(out.Messages, e)
		}
	})
	if err != nil {
		return nil, err
	}
	end := len(out.Messages)
	for i := range out.Messages {
		if before != "" && out.Messages[i].ID == before {
			end = i
		}
	}
	begin := max(0, end-limit)
	if begin > 0 {
		out.Page = &pageInfo{Truncated: true, Cursor: out.Messages[begin].ID}
	}
	out.Messages = out.Messages[begin:end]
	switch {
	case enc.run != nil:
		out.Active = &activeRun{enc.run.id}
		// The run is joined from its start, so its own messages come again.
		for len(out.Messages) > 0 && out.Messages[len(out.Messages)-1].Role == "assistant" {
			out.Messages = out.Messages[:len(out.Messages)-1]
		}
	case len(enc.prompts) > 0:
		o := openOutcome(enc.prompts, enc.form, enc.last)
		if len(o.Interrupts) > 0 {
			out.Interrupts = &pending{RunID: enc.last, Pending: o.Interrupts}
		}
	}
	return out, nil
}

// folded is the encoder after all entries that are stored now. each is called with every event, nil for a piece, and its frames.
func (d *Dialect) folded(ctx context.Context, t *target, each func(*chat.Event, []frame)) (*encoder, error) {
	enc := newEncoder(t.form, t.thread)
	enc.whole = true
	for batch, err := range turnlog.Follow(ctx, d.opt.Sessions, t.caller, t.session, 0, 0) {
		if err != nil {
			return nil, err
		}
		for i := range batch.Entries {
			s, err := stepOf(&batch.Entries[i])
			if err != nil {
				return nil, err
			}
			each(s.event, enc.take(s))
		}
		if batch.Live {
			break
		}
	}
	return enc, ctx.Err()
}

// appendUI adds an event to the messages of a page.
func appendUI(all []uiMessage, e *chat.Event) []uiMessage {
	at := e.At.Time()
	add := func(id string, p uiPart) {
		if n := len(all); n == 0 || all[n-1].Role != "assistant" {
			all = append(all, uiMessage{ID: id, Role: "assistant", Created: at})
		}
		last := &all[len(all)-1]
		last.Parts = append(last.Parts, p)
	}
	switch b := e.Body.(type) {
	case chat.UserMessage:
		return append(all, uiMessage{ID: messageID(e), Role: "user", Parts: []uiPart{{Type: "text", Content: b.PlainText()}}, Created: at})
	case chat.AgentText:
		if b.Text != "" {
			add(messageIDOf("", b.Block, e), uiPart{Type: "text", Content: b.Text})
		}
	case chat.AgentThinking:
		if b.Text != "" {
			add(messageIDOf("", b.Block, e), uiPart{Type: "thinking", Content: b.Text})
		}
	case chat.AgentToolCall:
		id := cmp.Or(b.CallID, string(e.ID))
		add(id, uiPart{Type: "tool-call", ID: id, Name: b.Tool, Arguments: string(orEmpty(b.Params)), State: "input-complete"})
	case chat.AgentToolResult:
		add(string(e.ID), uiPart{Type: "tool-result", CallID: b.CallID, Content: resultText(b.Result), State: "complete"})
	case chat.AgentToolError:
		add(string(e.ID), uiPart{Type: "tool-result", CallID: b.CallID, Content: b.Error, State: "error"})
	}
	return all
}
