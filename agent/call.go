package agent

import (
	"context"
	"errors"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// CallOptions configures a tool call.
type CallOptions struct {
	CallID     string // made from the step when empty
	Repeatable bool   // may be executed again when its outcome is not known
}

// Call executes a tool. The call is stored before run starts, its result or error after it returns. A call that has a
// stored result is not executed again. A call of an earlier attempt without a result is executed again only if it is
// repeatable; otherwise the error is ErrUnknownOutcome. The result of a tool is stored even if the turn was stopped
// meanwhile. The calls that run makes on the turn are steps of their own part.
func (t *Turn) Call(ctx context.Context, tool string, params json.RawMessage, opt CallOptions, run func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	step := t.step()
	end := step + "-end"
	if opt.CallID == "" {
		opt.CallID = "c" + t.label + "-" + step
	}
	_, again := t.earlier(step)
	began, err := t.append(ctx, step, chat.AgentToolCall{CallID: opt.CallID, Tool: tool, Params: params, Repeatable: opt.Repeatable})
	if err != nil {
		return nil, err
	}
	call, _ := began.Body.(chat.AgentToolCall)
	if e, ok := t.earlier(end); ok {
		return storedResult(e)
	}
	if again && !call.Repeatable {
		if err := t.note(ctx, end, chat.AgentToolError{CallID: call.CallID, Tool: tool, Error: ErrUnknownOutcome.Error(), Code: chat.UnknownOutcome}); err != nil {
			return nil, err
		}
		return nil, ErrUnknownOutcome
	}
	result, err := t.inPart(step, func() (json.RawMessage, error) { return run(ctx) })
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := t.note(ctx, end, chat.AgentToolError{CallID: call.CallID, Tool: tool, Error: err.Error()}); err != nil {
			return nil, err
		}
		return nil, err
	}
	if err := t.note(context.WithoutCancel(ctx), end, chat.AgentToolResult{CallID: call.CallID, Tool: tool, Result: result}); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, nil
}

// inPart runs f with the steps that it uses numbered under a step, so that the steps behind the call keep their numbers
// when the call is not executed again.
func (t *Turn) inPart(step string, f func() (json.RawMessage, error)) (json.RawMessage, error) {
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

// storedResult returns the result of a call of an earlier attempt.
func storedResult(e chat.Event) (json.RawMessage, error) {
	switch b := e.Body.(type) {
	case chat.AgentToolResult:
		return b.Result, nil
	case chat.AgentToolError:
		if b.Code == chat.UnknownOutcome {
			return nil, ErrUnknownOutcome
		}
		return nil, errors.New(b.Error)
	}
	return nil, chat.Errorf(chat.Conflict, "the agent does not repeat its steps: the result of a tool was %s in an earlier attempt", e.Type)
}
