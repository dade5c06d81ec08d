package httpagent

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"strconv"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/jsonpatch"
	"github.com/parley-hq/parley/internal/sse"
	"github.com/parley-hq/parley/internal/text"
)

// aguiEvent is an event of AG-UI, with the fields of all types.
type aguiEvent struct {
	Type        string             `json:"type"`
	MessageID   string             `json:"messageId"`
	Role        string             `json:"role"`
	Delta       json.RawMessage    `json:"delta"` // a string, or a JSON Patch
	Subagent    string             `json:"subagentRunId"`
	CallID      string             `json:"toolCallId"`
	CallName    string             `json:"toolCallName"`
	Content     json.RawMessage    `json:"content"` // of a result: a string, or parts; of an activity: an object
	Patch       json.RawMessage    `json:"patch"`
	Activity    string             `json:"activityType"`
	StepName    string             `json:"stepName"`
	Snapshot    json.RawMessage    `json:"snapshot"`
	Messages    []aguiwire.Message `json:"messages"`
	Message     string             `json:"message"`
	Name        string             `json:"name"`
	Value       json.RawMessage    `json:"value"` // of a custom event
	Raw         json.RawMessage    `json:"rawEvent"`
	Description string             `json:"description"`
	Metadata    json.RawMessage    `json:"metadata"`
	Outcome     *aguiwire.Outcome  `json:"outcome"`
	Usage       []aguiwire.Tokens  `json:"usage"`
}

// aguiRun handles one run.
type aguiRun struct {
	a            *Agent
	r            *round
	out          *output
	rec          *roundRecord
	state        json.RawMessage
	stateChanged bool

	message      string                  // the id of the message that is being written
	written      bool                    // the run sent text
	pending      map[string]*pendingCall // by the endpoint's id
	lastCall     string                  // the call that chunks without an id belong to
	snapshot     string                  // the agent's last message in a MESSAGES_SNAPSHOT
	graphPrompts []graphPrompt
	activities   map[string]json.RawMessage // by the endpoint's id
}

// agUI calls an AG-UI agent.
func agUI(ctx context.Context, a *Agent, r *round) ([]promptRequest, error) {
	u := &aguiRun{a: a, r: r, out: r.out, pending: map[string]*pendingCall{}, rec: &roundRecord{Round: r.n}, activities: map[string]json.RawMessage{}}
	input, err := u.input(ctx)
	if err != nil {
		return nil, err
	}
	header := http.Header{aguiwire.CallsHeader: {strconv.Itoa(pageOf(&r.turn.Trigger).Calls + 1)}}
	s, err := a.post(ctx, a.opt.URL, input, "text/event-stream", header)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var prompts []promptRequest
	finished := false
	handle := func(data []byte, truncated bool) (done bool, err error) {
		var e aguiEvent
		if err := json.Unmarshal(data, &e); err != nil {
			if truncated {
				return true, a.broken(err)
			}
			return true, a.unreadable("an event that is no JSON", err)
		}
		if e.Type != "RUN_FINISHED" {
			return false, u.handleEvent(ctx, &e)
		}
		finished = true
		prompts, err = u.finish(ctx, &e)
		return true, err
	}
	err = s.events(func(name, value []byte) error {
		if bare := bareJSON(name, value); bare != nil && !finished {
			_, err := handle(bare, false)
			return err
		}
		return nil
	}, func(e sse.Frame, truncated bool) (bool, error) {
		if finished {
			return true, nil
		}
		return handle(e.Data, truncated)
	})
	if err == nil && !finished {
		err = a.broken(nil)
	}
	return prompts, err
}

// handleEvent handles every event but RUN_FINISHED. It ignores unknown types.
func (u *aguiRun) handleEvent(ctx context.Context, e *aguiEvent) error {
	switch e.Type {
	case "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK":
		return u.text(ctx, e)
	case "TEXT_MESSAGE_END":
		return nil // the block stays open: it is the answer if nothing follows
	case "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT":
		return u.out.think(ctx, json.Text(e.Delta))
	case "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK":
		return u.collectCall(ctx, e)
	case "TOOL_CALL_END":
		return u.storeCall(ctx, e.CallID)
	case "TOOL_CALL_RESULT":
		if err := u.storeCall(ctx, e.CallID); err != nil {
			return err
		}
		result := aguiwire.Text(e.Content)
		if result != "" && e.failed() {
			return u.out.result(ctx, e.CallID, nil, result)
		}
		return u.out.result(ctx, e.CallID, asJSON(result), "")
	case "STEP_STARTED":
		_, err := u.out.store(ctx, chat.AgentStatus{Message: text.Clip(e.StepName, 200), Phase: "working"})
		return err
	case "STATE_SNAPSHOT", "STATE_DELTA":
		return u.updateState(e)
	case "MESSAGES_SNAPSHOT":
		if n := len(e.Messages); n > 0 && e.Messages[n-1].Role == "assistant" {
			_ = json.Unmarshal(e.Messages[n-1].Content, &u.snapshot) // content of another form has no text
		}
	case "SUBAGENT_STARTED":
		params, _ := json.Marshal(map[string]string{"description": e.Description})
		return u.out.call(ctx, e.Subagent, e.Name, params)
	case "SUBAGENT_FINISHED":
		return u.out.result(ctx, e.Subagent, noResult, "")
	case "SUBAGENT_ERROR":
		return u.out.result(ctx, e.Subagent, nil, e.Message)
	case "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA":
		return u.activity(ctx, e)
	case "CUSTOM":
		if e.Name != graphInterrupt {
			return u.storeParley(ctx, e, customTypes[e.Name], e.Value)
		}
		u.graphPrompts = append(u.graphPrompts, parseGraphInterrupt(e))
	case "RUN_ERROR":
		return u.a.reported(e.Message)
	}
	return nil
}

// failed reports whether a result is the error of a tool. AG-UI has no field for that; Parley's own servers set it in the metadata.
func (e *aguiEvent) failed() bool {
	var m struct {
		Error bool `json:"error"`
	}
	return json.Unmarshal(e.Metadata, &m) == nil && m.Error
}

// text writes a piece of a message. The messages of subagents are shown as
// reasoning.
func (u *aguiRun) text(ctx context.Context, e *aguiEvent) error {
	if e.Role != "" && e.Role != "assistant" {
		return nil
	}
	if e.Subagent != "" {
		return u.out.think(ctx, json.Text(e.Delta))
	}
	if e.MessageID != "" && e.MessageID != u.message {
		if u.message != "" {
			if err := u.out.endBlock(ctx); err != nil {
				return err
			}
		}
		u.message = e.MessageID
	}
	if len(e.Delta) == 0 {
		return nil
	}
	u.written = true
	if err := u.out.text(ctx, json.Text(e.Delta)); err != nil {
		return err
	}
	u.recordMessageID()
	return nil
}

// recordMessageID records the agent's id of the message in the open block: agents
// that store the conversation themselves find their messages by these ids.
func (u *aguiRun) recordMessageID() {
	if u.out.w == nil || u.out.kind != chat.TextBlock || u.message == "" || len(u.rec.Messages) > 1000 {
		return
	}
	if u.rec.Messages == nil {
		u.rec.Messages = map[string]string{}
	}
	u.rec.Messages[string(u.out.w.Block())] = text.Clip(u.message, 200)
}

// collectCall collects the parameters of a call.
func (u *aguiRun) collectCall(ctx context.Context, e *aguiEvent) error {
	id := cmp.Or(e.CallID, u.lastCall)
	if id != u.lastCall && u.lastCall != "" && e.Type == "TOOL_CALL_CHUNK" {
		if err := u.storeCall(ctx, u.lastCall); err != nil {
			return err
		}
	}
	u.lastCall = id
	t := u.pending[id]
	if t == nil {
		if len(u.pending) >= maxCalls {
			return u.a.unreadable("too many tool calls", nil)
		}
		t = &pendingCall{id: id}
		u.pending[id] = t
	}
	if e.CallName != "" {
		t.name = e.CallName
	}
	t.args += json.Text(e.Delta)
	return nil
}

// storeCall stores a call whose parameters are complete.
func (u *aguiRun) storeCall(ctx context.Context, id string) error {
	t := u.pending[id]
	if t == nil {
		return nil
	}
	delete(u.pending, id)
	if u.lastCall == id {
		u.lastCall = ""
	}
	return u.out.call(ctx, id, t.name, json.RawMessage(t.args))
}

// finish handles RUN_FINISHED and returns the prompts that the run waits for.
func (u *aguiRun) finish(ctx context.Context, e *aguiEvent) ([]promptRequest, error) {
	for id := range maps.Clone(u.pending) {
		if err := u.storeCall(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, t := range e.Usage {
		u.out.usage = append(u.out.usage, t.Usage())
	}
	if !u.written && u.snapshot != "" && len(u.out.openCalls) == 0 {
		if err := u.out.text(ctx, u.snapshot); err != nil {
			return nil, err
		}
	}
	prompts, err := u.prompts(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := u.recordState(); err != nil {
		return nil, err
	}
	u.r.previous = u.rec
	if len(prompts) == 0 && (u.stateChanged || len(u.rec.Messages) > 0) {
		_, err = u.out.store(ctx, u.rec.body())
	}
	return prompts, err
}

// updateState applies a STATE_SNAPSHOT or STATE_DELTA event to the agent's state.
func (u *aguiRun) updateState(e *aguiEvent) (err error) {
	u.stateChanged = true
	if e.Type == "STATE_SNAPSHOT" {
		u.state, err = compactJSON(e.Snapshot)
	} else {
		u.state, err = jsonpatch.Apply(u.state, e.Delta, maxState)
	}
	if err != nil {
		return u.a.unreadable("a state, or a change to it that does not fit", err)
	}
	return nil
}

// maxState is the largest state that is stored between runs.
const maxState = 256 << 10

// recordState records the state if the agent has changed it. A page that gets its own state back would lose what it has changed since.
func (u *aguiRun) recordState() error {
	if !u.stateChanged {
		return nil
	}
	if n := len(u.state); n > maxState {
		return agent.Failf(agent.CodeTooLarge, chat.TooLarge, "the agent's state has %d KiB; at most %d are kept, so let it keep less", n>>10, maxState>>10)
	}
	u.rec.State = u.state
	return nil
}
