package agui

import (
	"cmp"
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// capabilities says what agents of this server can do, in the words of AG-UI.
func capabilities(name string) map[string]any {
	return map[string]any{
		"identity":       map[string]any{"name": name, "type": "parley"},
		"transport":      map[string]any{"streaming": true, "resumable": true},
		"tools":          map[string]any{"supported": true, "clientProvided": true},
		"multiAgent":     map[string]any{"supported": true, "delegation": true},
		"humanInTheLoop": map[string]any{"supported": true, "approvals": true, "interrupts": true, "approveWithEdits": true},
	}
}

// info lists the agents. CopilotKit asks for one that is called default unless a page names another.
func (d *Dialect) info(_ *http.Request, c chat.Caller) (any, error) {
	agents := map[string]any{}
	for _, name := range append(d.Agents(c.In()), "default") {
		agents[name] = map[string]any{"name": name, "description": "", "className": "HttpAgent", "capabilities": capabilities(name)}
	}
	return map[string]any{
		"version": d.version, "agents": agents, "mode": "sse", "audioFileTranscriptionEnabled": false,
		"threadEndpoints": map[string]bool{"list": true, "inspect": true, "mutations": false, "realtimeMetadata": false},
	}, nil
}

// stop asks the running turn of a thread to end.
func (d *Dialect) stop(r *http.Request, c chat.Caller) (any, error) {
	b, err := d.HTTP.Body(r)
	if err != nil {
		return nil, err
	}
	return d.stopThread(r, c, r.PathValue("agentname"), r.PathValue("thread"), b)
}

func (d *Dialect) stopThread(r *http.Request, c chat.Caller, agent, thread string, body []byte) (any, error) {
	var in map[string]string
	if len(body) > 0 {
		if err := edge.Decode(body, &in); err != nil {
			return nil, err
		}
	}
	runID, named := in["runId"]
	if len(in) > 1 || len(in) == 1 && !named {
		return nil, chat.Errorf(chat.Invalid, "the body of a stop is {} or {runId}")
	}
	if _, err := d.agentName(c, agent); err != nil {
		return nil, err
	}
	ctx := r.Context()
	sess, err := d.find(ctx, c, thread)
	current := true
	if err == nil && runID != "" {
		current, err = d.runs(ctx, c, &sess, thread, runID)
	}
	if chat.CodeOf(err) == chat.NotFound || err == nil && !current {
		return map[string]bool{"stopped": false}, nil // also for a thread that does not exist
	}
	if err != nil {
		return nil, err
	}
	return d.Stop(ctx, c, sess.ID)
}

// runs reports whether a run belongs to the running turn. A message before the turn's own belongs to an earlier run, one after it
// waits behind the turn.
func (d *Dialect) runs(ctx context.Context, c chat.Caller, sess *chat.Session, thread, runID string) (bool, error) {
	t, err := d.findRun(ctx, c, runID, thread, variant{})
	if err != nil {
		return false, err
	}
	st, err := d.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return false, err
	}
	turn := st.Line(mainLine).Turn
	return turn != nil && t.session == sess.ID && (t.message != 0 && t.message == turn.Trigger || t.message == 0 && t.from >= turn.Seq), nil
}

// single is CopilotKit's form of all requests through one route.
func (d *Dialect) single(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.HTTP.Body(r)
	if err != nil {
		return err
	}
	var in struct {
		Method string `json:"method"`
		Params struct {
			Agent  string `json:"agentId"`
			Thread string `json:"threadId"`
		} `json:"params"`
		Body json.RawMessage `json:"body"`
	}
	if err := edge.Decode(b, &in); err != nil {
		return err
	}
	var out any
	switch in.Method {
	case "info":
		out, err = d.info(r, c)
	case "agent/run", "agent/connect":
		return d.run(w, r, c, in.Params.Agent, in.Body, in.Method == "agent/connect")
	case "agent/stop":
		out, err = d.stopThread(r, c, in.Params.Agent, in.Params.Thread, in.Body)
	default:
		return chat.Errorf(chat.NotFound, "the method %q is not offered here", text.Clip(in.Method, 80))
	}
	if err == nil {
		d.HTTP.Send(w, r, http.StatusOK, out)
	}
	return err
}

// threads lists the caller's sessions with an agent, the most recently active first.
func (d *Dialect) threads(r *http.Request, c chat.Caller) (any, error) {
	q := edge.NewQuery(r)
	f := core.Filter{Limit: q.Limit(50, 200), Cursor: q.Text("cursor")}
	agent := q.Text("agentId")
	if !q.Bool("includeArchived", false) {
		f.Archived = new(bool)
	}
	if q.Err != nil {
		return nil, q.Err
	}
	if agent != "" {
		var err error
		if f.Agent, err = d.agentName(c, agent); err != nil {
			return nil, err
		}
	}
	page, err := d.Sessions.List(r.Context(), c, f)
	if err != nil {
		return nil, err
	}
	list := []any{}
	for i := range page.Sessions {
		s := &page.Sessions[i]
		if now, err := d.Sessions.AliasedHere(r.Context(), c, alias(threadOf(s), "")); err == nil && now.ID != s.ID {
			continue // a fork has taken its place in the thread
		}
		list = append(list, map[string]any{
			"id": threadOf(s), "agentId": cmp.Or(agent, s.Agent), "name": cmp.Or(s.Title, s.Heading, threadOf(s)), "archived": s.Archived, "createdAt": s.CreatedAt.Time(),
			"updatedAt": s.UpdatedAt.Time(), "lastRunAt": s.UpdatedAt.Time(), "organizationId": s.Workspace, "createdById": s.Owner.ID,
		})
	}
	var next any // null on the last page
	if page.Next != "" {
		next = page.Next
	}
	return map[string]any{"threads": list, "nextCursor": next}, nil
}

// ofThread answers a request about a thread of the caller.
func (d *Dialect) ofThread(answer func(r *http.Request, c chat.Caller, id chat.SessionID) (any, error)) edge.Handler {
	return d.HTTP.Reply(func(r *http.Request, c chat.Caller) (any, error) {
		sess, err := d.find(r.Context(), c, r.PathValue("thread"))
		if err != nil {
			return nil, err
		}
		return answer(r, c, sess.ID)
	})
}

// threadMessages lists the newest messages of a thread, or those before an event, in the form of AG-UI.
func (d *Dialect) threadMessages(r *http.Request, c chat.Caller, id chat.SessionID) (any, error) {
	q := edge.NewQuery(r)
	limit, before := q.Limit(maxHydrated, maxHydrated), q.Sequence("before", 1)
	if q.Err != nil {
		return nil, q.Err
	}
	list := []message{}
	page, err := d.newest(r.Context(), c, id, limit, before, func(_ *chat.Event, m *message) { list = append(list, *m) })
	out := map[string]any{"messages": list}
	if page != nil {
		out["page"] = page
	}
	return out, err
}

// maxThreadTurns bounds the turns whose frames the inspector gets.
const maxThreadTurns = 50

// threadEvents lists the frames of the newest turns of a thread.
func (d *Dialect) threadEvents(r *http.Request, c chat.Caller, id chat.SessionID) (any, error) {
	ctx, t := r.Context(), &target{caller: c, session: id, thread: r.PathValue("thread")}
	for e, err := range d.Sessions.Events(ctx, c, id, chat.Range{Limit: maxThreadTurns, Desc: true, Workstream: &mainLine, Types: []string{chat.TurnStarted{}.Type()}}) {
		if err != nil {
			return nil, err
		}
		t.base = &e
	}
	list, size := []json.RawMessage{}, 0
	if t.base == nil {
		return map[string]any{"events": list}, nil
	}
	_, err := d.fold(ctx, t, 0, func(_ chat.Seq, f frame) {
		list, size = append(list, f.data), size+len(f.data)
		for ; len(list) > 1 && (len(list) > maxHydrated || size > maxHydratedBytes); list = list[1:] {
			size, list[0] = size-len(list[0]), nil // so that it is freed
		}
	})
	return map[string]any{"events": list}, err
}

// threadState is the state that the page sent last.
func (d *Dialect) threadState(r *http.Request, c chat.Caller, id chat.SessionID) (any, error) {
	for e, err := range d.Sessions.Events(r.Context(), c, id, chat.Range{Limit: recentPrompts, Desc: true, Types: []string{chat.UserMessage{}.Type(), "remote.round"}}) {
		if err != nil {
			return nil, err
		}
		if s := stateOf(&e); s != nil {
			return map[string]any{"state": s}, nil
		}
	}
	return map[string]any{"state": emptyObject}, nil
}
