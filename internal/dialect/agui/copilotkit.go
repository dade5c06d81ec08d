package agui

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
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
	var in map[string]json.RawMessage
	if len(body) > 0 {
		if err := edge.Decode(body, &in); err != nil {
			return nil, err
		}
	}
	var runID string
	for key, value := range in {
		if key != "runId" || json.Unmarshal(value, &runID) != nil {
			return nil, chat.Errorf(chat.Invalid, "the body of a stop is {} or {runId}; %q is not known", text.Clip(key, 40))
		}
	}
	if _, err := d.agentName(c, agent); err != nil {
		return nil, err
	}
	ctx := r.Context()
	sess, err := d.find(ctx, c, thread)
	if chat.CodeOf(err) == chat.NotFound {
		return map[string]bool{"stopped": false}, nil // nothing runs in a thread that does not exist
	}
	if err != nil {
		return nil, err
	}
	if runID != "" {
		st, err := d.Sessions.State(ctx, c, sess.ID)
		if err != nil {
			return nil, err
		}
		turn := st.Line(mainLine).Turn
		e, err := d.runIn(ctx, c, sess.ID, runID)
		if err != nil {
			return nil, err
		}
		// A message before the turn's own belongs to an earlier run, one after it waits behind the turn.
		_, message := bodyOf(e).(chat.UserMessage)
		if turn == nil || e == nil && runID != string(turn.ID) || message && e.Seq != turn.Trigger || e != nil && !message && e.Seq < turn.Seq {
			return map[string]bool{"stopped": false}, nil
		}
	}
	return d.Stop(ctx, c, sess.ID)
}

func bodyOf(e *chat.Event) chat.Body {
	if e == nil {
		return nil
	}
	return e.Body
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
	f := chat.Filter{Limit: q.Limit(50, 200), Cursor: q.Text("cursor")}
	agent := q.Text("agentId")
	q.Bool("includeArchived", false) // no session is archived
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
		if now, err := d.Sessions.Own(r.Context(), c, alias(threadOf(s), "")); err == nil && now.ID != s.ID {
			continue // a fork has taken its place in the thread
		}
		list = append(list, map[string]any{
			"id": threadOf(s), "agentId": cmp.Or(agent, s.Agent), "name": s.Title, "archived": false, "createdAt": s.CreatedAt.Time(),
			"updatedAt": s.UpdatedAt.Time(), "lastRunAt": s.UpdatedAt.Time(), "organizationId": s.Workspace, "createdById": s.Owner.ID,
		})
	}
	next := &page.Next
	if page.Next == "" {
		next = nil
	}
	return map[string]any{"threads": list, "nextCursor": next}, nil
}

// threadMessages lists the newest messages of a thread in the form of AG-UI.
func (d *Dialect) threadMessages(r *http.Request, c chat.Caller) (any, error) {
	sess, err := d.find(r.Context(), c, r.PathValue("thread"))
	if err != nil {
		return nil, err
	}
	list := []message{}
	for e, err := range d.Sessions.Events(r.Context(), c, sess.ID, chat.Range{Limit: maxHydrated, Desc: true, Workstream: &mainLine, Types: uiTypes}) {
		if err != nil {
			return nil, err
		}
		if m, ok := messageOf(&e); ok {
			list = append(list, m)
		}
	}
	slices.Reverse(list)
	return map[string]any{"messages": list}, nil
}

// messageOf is an event as a message.
func messageOf(e *chat.Event) (m message, ok bool) {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		return userMessage(e), true
	case chat.AgentText:
		return message{ID: messageIDOf("", b.Block, e), Role: "assistant", Content: quote(b.Text)}, b.Text != ""
	case chat.AgentThinking:
		return message{ID: messageIDOf("", b.Block, e), Role: "reasoning", Content: quote(b.Text)}, b.Text != ""
	case chat.AgentToolCall:
		return message{ID: string(e.ID), Role: "assistant", Calls: []aguiwire.Call{aguiwire.NewCall(cmp.Or(b.CallID, string(e.ID)), b.Tool, b.Params)}}, true
	case chat.AgentToolResult:
		return message{ID: string(e.ID), Role: "tool", CallID: b.CallID, Content: quote(resultText(b.Result))}, b.CallID != ""
	case chat.AgentToolError:
		return message{ID: string(e.ID), Role: "tool", CallID: b.CallID, Content: quote(b.Error), Error: b.Error}, b.CallID != ""
	}
	return m, false
}

// maxThreadTurns bounds the turns whose frames the inspector gets.
const maxThreadTurns = 50

// threadEvents lists the frames of the newest turns of a thread.
func (d *Dialect) threadEvents(r *http.Request, c chat.Caller) (any, error) {
	ctx, t := r.Context(), &target{caller: c, thread: r.PathValue("thread")}
	sess, err := d.find(ctx, c, t.thread)
	if err != nil {
		return nil, err
	}
	t.session = sess.ID
	for e, err := range d.Sessions.Events(ctx, c, sess.ID, chat.Range{Limit: maxThreadTurns, Desc: true, Workstream: &mainLine, Types: []string{chat.TurnStarted{}.Type()}}) {
		if err != nil {
			return nil, err
		}
		t.base = &e
	}
	list := []json.RawMessage{}
	if t.base != nil {
		_, err = d.folded(ctx, t, func(frames []frame) {
			for _, f := range frames {
				list = append(list, f.data)
			}
		})
	}
	return map[string]any{"events": list[max(0, len(list)-maxHydrated):]}, err
}

// threadState is the state that the page sent last.
func (d *Dialect) threadState(r *http.Request, c chat.Caller) (any, error) {
	sess, err := d.find(r.Context(), c, r.PathValue("thread"))
	if err != nil {
		return nil, err
	}
	state := emptyObject
	for e, err := range d.Sessions.Events(r.Context(), c, sess.ID, chat.Range{Limit: recentPrompts, Desc: true, Types: []string{chat.UserMessage{}.Type(), "remote.round"}}) {
		if err != nil {
			return nil, err
		}
		if s := stateOf(&e); s != nil {
			state = s
			break
		}
	}
	return map[string]any{"state": state}, nil
}

// stateOf is the state that an event has, nil when it has none.
func stateOf(e *chat.Event) json.RawMessage {
	if b, ok := e.Body.(chat.Unknown); ok {
		var r struct {
			State json.RawMessage `json:"state"`
		}
		if b.Name != "remote.round" || json.Unmarshal(b.Payload, &r) != nil || len(r.State) == 0 || string(r.State) == "null" {
			return nil
		}
		return r.State
	}
	return storedOf(e).State
}
