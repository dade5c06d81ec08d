package agent

import (
	"context"
	"errors"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// CallOptions say how a tool may be treated.
type CallOptions struct {
	CallID     string // made from the step when empty
	Repeatable bool   // may be run again when its outcome is not known
}

// ErrUnknownOutcome says that an earlier attempt ran the tool and was cut off
// before the result was in the log.
var ErrUnknownOutcome = errors.New("the tool was running when the agent was cut off; whether it took effect is not known")

// Call uses a tool: the call is in the log before run starts, its result or
// error after. A call that has a result is not run again. A tool that ended well
// has its result in the log even if the turn was stopped meanwhile.
func (t *Turn) Call(ctx context.Context, tool string, params json.RawMessage, opt CallOptions, run func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	step := t.step()
	if opt.CallID == "" {
		opt.CallID = "c" + strconv.FormatUint(uint64(t.Started.Seq), 10) + "-" + step
	}
	_, again := t.earlier(t.key(step))
	began, err := t.append(ctx, chat.AgentToolCall{CallID: opt.CallID, Tool: tool, Params: params, Repeatable: opt.Repeatable}, t.key(step))
	if err != nil {
		return nil, err
	}
	call := began.Body.(chat.AgentToolCall)
	end := t.key(step + "-end")
	if e, ok := t.earlier(end); ok {
		return ended(e)
	}
	if again && !call.Repeatable {
		_, err := t.append(ctx, chat.AgentToolError{CallID: call.CallID, Tool: tool, Error: ErrUnknownOutcome.Error(), Code: chat.UnknownOutcome}, end)
		if err != nil {
			return nil, err
		}
		return nil, ErrUnknownOutcome
	}
	result, err := t.within(step, func() (json.RawMessage, error) { return run(ctx) })
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, aerr := t.append(ctx, chat.AgentToolError{CallID: call.CallID, Tool: tool, Error: err.Error()}, end); aerr != nil {
			return nil, aerr
		}
		return nil, err
	}
	if _, err := t.append(context.WithoutCancel(ctx), chat.AgentToolResult{CallID: call.CallID, Tool: tool, Result: result}, end); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, nil
}

// within runs f with the verbs that it uses as steps of a step: a call that has
// its result is not run again, and the steps behind it keep their numbers.
func (t *Turn) within(step string, f func() (json.RawMessage, error)) (json.RawMessage, error) {
	t.mu.Lock()
	part, steps := t.part, t.steps
	t.part, t.steps = step+".", 0
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.part, t.steps = part, steps
		t.mu.Unlock()
	}()
	return f()
}

// ended gives what a call gave in an earlier attempt.
func ended(e chat.Event) (json.RawMessage, error) {
	switch b := e.Body.(type) {
	case chat.AgentToolResult:
		return b.Result, nil
	case chat.AgentToolError:
		if b.Code == chat.UnknownOutcome {
			return nil, ErrUnknownOutcome
		}
		return nil, errors.New(b.Error)
	}
	return nil, chat.Errorf(chat.Conflict, "the agent does not repeat itself: a tool had a result where %s is now", e.Type)
}
