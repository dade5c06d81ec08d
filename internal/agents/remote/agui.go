package remote

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sse"
	"github.com/parley-hq/parley/internal/text"
)

// aguiEvent is any event of AG-UI.
type aguiEvent struct {
	Type        string          `json:"type"`
	MessageID   string          `json:"messageId"`
	Role        string          `json:"role"`
	Delta       json.RawMessage `json:"delta"` // a text, or a patch
	Subagent    string          `json:"subagentRunId"`
	CallID      string          `json:"toolCallId"`
	CallName    string          `json:"toolCallName"`
	Content     json.RawMessage `json:"content"` // of a result: a text, or parts
	StepName    string          `json:"stepName"`
	Snapshot    json.RawMessage `json:"snapshot"`
	Messages    []aguiMessage   `json:"messages"`
	Message     string          `json:"message"`
	Name        string          `json:"name"`
	Value       json.RawMessage `json:"value"` // of a custom event
	Raw         json.RawMessage `json:"rawEvent"`
	Description string          `json:"description"`
	Outcome     *struct {
		Type       string          `json:"type"`
		Interrupts []aguiInterrupt `json:"interrupts"`
	} `json:"outcome"`
	Usage []struct {
		Model      string `json:"model"`
		Input      int64  `json:"inputTokens"`
		Output     int64  `json:"outputTokens"`
		Reasoning  int64  `json:"reasoningTokens"`
		Cached     int64  `json:"cachedInputTokens"`
		CacheWrite int64  `json:"cacheWriteInputTokens"`
	} `json:"usage"`
}

// aguiMessage is a message of AG-UI.
type aguiMessage struct {
	ID       string     `json:"id"`
	Role     string     `json:"role"`
	Content  any        `json:"content,omitempty"`
	Calls    []aguiCall `json:"toolCalls,omitempty"`
	CallID   string     `json:"toolCallId,omitempty"`
	Error    string     `json:"error,omitempty"`
	Subagent string     `json:"subagentRunId,omitempty"`
}

type aguiCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// aguiRun hears one run.
type aguiRun struct {
	a      *Agent
	r      *round
	s      *output
	rec    *record
	state  json.RawMessage
	change bool // of the state

	message  string                // the one that is being written
	written  bool                  // this run said something as text
	args     map[string]*toolDraft // calls whose parameters come in pieces
	last     string                // the call that chunks without an id belong to
	snapshot string                // the last word of the agent in a snapshot of messages
	graph    []graphQuestion       // what a graph waits for
}

// agUI calls an AG-UI agent.
func agUI(ctx context.Context, a *Agent, r *round) ([]question, error) {
	u := &aguiRun{a: a, r: r, s: r.s, args: map[string]*toolDraft{}, rec: &record{Round: r.n}}
	input, err := u.input(ctx)
	if err != nil {
		return nil, err
	}
	s, err := a.post(ctx, a.opt.URL, input, "text/event-stream", nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var asked []question
	finished := false
	take := func(data []byte, truncated bool) (done bool, err error) {
		var e aguiEvent
		if err := json.Unmarshal(data, &e); err != nil {
			if truncated {
				return true, a.broken(err)
			}
			return true, a.unreadable("an event that is no JSON", err)
		}
		if e.Type != "RUN_FINISHED" {
			return false, u.take(ctx, &e)
		}
		finished = true
		asked, err = u.finished(ctx, &e)
		return true, err
	}
	err = s.events(func(name, value []byte) error {
		if bare := bareJSON(name, value); bare != nil && !finished {
			_, err := take(bare, false)
			return err
		}
		return nil
	}, func(e sse.Frame, truncated bool) (bool, error) {
		if finished {
			return true, nil
		}
		return take(e.Data, truncated)
	})
	if err == nil && !finished {
		err = a.broken(nil)
	}
	return asked, err
}

// take hears one event. Types that it does not know are for others.
func (u *aguiRun) take(ctx context.Context, e *aguiEvent) error {
	switch e.Type {
	case "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK":
		return u.text(ctx, e)
	case "TEXT_MESSAGE_END":
		return nil // whether it is the answer shows when something follows
	case "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT":
		return u.s.think(ctx, plain(e.Delta))
	case "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK":
		return u.call(ctx, e)
	case "TOOL_CALL_END":
		return u.called(ctx, e.CallID)
	case "TOOL_CALL_RESULT":
		if err := u.called(ctx, e.CallID); err != nil {
			return err
		}
		return u.s.result(ctx, e.CallID, value(contentText(e.Content)), "")
	case "STEP_STARTED":
		_, err := u.s.store(ctx, chat.AgentStatus{Message: text.Clip(e.StepName, 200), Phase: "working"})
		return err
	case "STATE_SNAPSHOT", "STATE_DELTA":
		return u.updateState(e)
	case "MESSAGES_SNAPSHOT":
		if n := len(e.Messages); n > 0 && e.Messages[n-1].Role == "assistant" {
			u.snapshot, _ = e.Messages[n-1].Content.(string)
		}
	case "SUBAGENT_STARTED":
		params, _ := json.Marshal(map[string]string{"description": e.Description})
		return u.s.call(ctx, e.Subagent, e.Name, params)
	case "SUBAGENT_FINISHED":
		return u.s.result(ctx, e.Subagent, json.RawMessage("null"), "")
	case "SUBAGENT_ERROR":
		return u.s.result(ctx, e.Subagent, nil, e.Message)
	case "CUSTOM":
		if e.Name == graphInterrupt {
			u.graph = append(u.graph, graphAsks(e))
		}
	case "RUN_ERROR":
		return u.a.reported(e.Message)
	}
	return nil
}

// text shows a piece of a message. What subagents say among themselves is
// reasoning to the person.
func (u *aguiRun) text(ctx context.Context, e *aguiEvent) error {
	if e.Role != "" && e.Role != "assistant" {
		return nil
	}
	if e.Subagent != "" {
		return u.s.think(ctx, plain(e.Delta))
	}
	if e.MessageID != "" && e.MessageID != u.message {
		if u.message != "" {
			if err := u.endBlock(ctx); err != nil {
				return err
			}
		}
		u.message = e.MessageID
	}
	if len(e.Delta) == 0 {
		return nil
	}
	u.written = true
	if err := u.s.text(ctx, plain(e.Delta)); err != nil {
		return err
	}
	u.name()
	return nil
}

// name remembers which message of the agent a block is: agents that keep the
// conversation themselves know their messages by their ids.
func (u *aguiRun) name() {
	if u.s.w == nil || u.s.kind != chat.TextBlock || u.message == "" || len(u.rec.Messages) > 1000 {
		return
	}
	if u.rec.Messages == nil {
		u.rec.Messages = map[string]string{}
	}
	u.rec.Messages[string(u.s.w.Block())] = text.Clip(u.message, 200)
}

func (u *aguiRun) endBlock(ctx context.Context) error { return u.s.endBlock(ctx) }

// call collects the parameters of a call.
func (u *aguiRun) call(ctx context.Context, e *aguiEvent) error {
	id := e.CallID
	if id == "" {
		id = u.last
	}
	if id != u.last && u.last != "" && e.Type == "TOOL_CALL_CHUNK" {
		if err := u.called(ctx, u.last); err != nil {
			return err
		}
	}
	u.last = id
	t := u.args[id]
	if t == nil {
		if len(u.args) >= 1000 {
			return u.a.unreadable("too many tool calls", nil)
		}
		t = &toolDraft{id: id}
		u.args[id] = t
	}
	if e.CallName != "" {
		t.name = e.CallName
	}
	t.args += plain(e.Delta)
	return nil
}

// called tells of a call whose parameters are whole.
func (u *aguiRun) called(ctx context.Context, id string) error {
	t := u.args[id]
	if t == nil {
		return nil
	}
	delete(u.args, id)
	if u.last == id {
		u.last = ""
	}
	return u.s.call(ctx, id, t.name, json.RawMessage(t.args))
}

// finished ends the run: with a question, with a call that is for us, or for
// good.
func (u *aguiRun) finished(ctx context.Context, e *aguiEvent) ([]question, error) {
	for id := range maps.Clone(u.args) {
		if err := u.called(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, t := range e.Usage {
		u.s.usage = append(u.s.usage, chat.AgentUsage{Model: t.Model, Usage: chat.Usage{
			InputTokens: t.Input, OutputTokens: t.Output, ReasoningTokens: t.Reasoning, CacheReadTokens: t.Cached, CacheCreationTokens: t.CacheWrite,
		}})
	}
	if !u.written && u.snapshot != "" && len(u.s.open) == 0 {
		if err := u.s.text(ctx, u.snapshot); err != nil {
			return nil, err
		}
	}
	asked, err := u.questions(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := u.keepState(); err != nil {
		return nil, err
	}
	u.r.before = u.rec
	if len(asked) == 0 && (u.change || len(u.rec.Messages) > 0) {
		_, err = u.s.store(ctx, u.rec.body())
	}
	return asked, err
}

// updateState applies a STATE_SNAPSHOT or STATE_DELTA event to the agent's state.
func (u *aguiRun) updateState(e *aguiEvent) (err error) {
	u.change = true
	if e.Type == "STATE_SNAPSHOT" {
		u.state, err = compactJSON(e.Snapshot)
	} else {
		u.state, err = patchState(u.state, e.Delta)
	}
	if err != nil {
		return u.a.unreadable("a state, or a change to it that does not fit", err)
	}
	return nil
}

// maxState is the largest state that is kept from run to run.
const maxState = 256 << 10

// patchState applies a JSON Patch (RFC 6902). It refuses a patch whose copy operations alone exceed maxState, so that
// a small patch cannot produce a large document. The library panics on some malformed patches.
func patchState(state, patch json.RawMessage) (next json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			next, err = nil, fmt.Errorf("malformed JSON Patch: %v", v)
		}
	}()
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return ops.ApplyWithOptions(state, &jsonpatch.ApplyOptions{AccumulatedCopySizeLimit: maxState})
}

func compactJSON(raw json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.Bytes(), err
}

func (u *aguiRun) keepState() error {
	if u.state == nil || u.rec.State == nil && !u.change {
		return nil
	}
	if n := len(u.state); n > maxState {
		return agent.Failf(agent.CodeTooLarge, chat.TooLarge, "the agent's state has %d KiB; at most %d are kept, so let it keep less", n>>10, maxState>>10)
	}
	u.rec.State = u.state
	return nil
}
