package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/json"
)

// finishAll finishes the pending calls of the last step in parallel. It returns when each
// has a result, an error or a denial.
func (r *round) finishAll(ctx context.Context, pending []*call) error {
	var wg sync.WaitGroup
	errs := make([]error, len(pending))
	for i, c := range pending {
		wg.Go(func() { errs[i] = r.finish(ctx, c) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// finish waits for the call's approval, executes it and stores the outcome, as far as
// that is still to be done. The returned error concerns the turn; errors of the tool
// are stored in the log.
func (r *round) finish(ctx context.Context, c *call) error {
	if c.request != "" && !c.decided {
		d, err := r.approval(ctx, c)
		if err != nil || !d.Approve {
			return err
		}
		c.take(d)
	}
	part := r.turn.Part(strings.ReplaceAll(c.id, "-", "x"))
	t, known := r.find(c.tool)
	treatment, _ := r.treat(c.tool, c.params)
	if !c.called {
		c.repeatable = treatment.Repeatable
		if _, err := part.Part("call").Append(ctx, chat.AgentToolCall{CallID: c.id, Tool: c.tool, Params: c.params, Repeatable: c.repeatable}); err != nil {
			return err
		}
	}
	result, err := r.use(ctx, part, c, t, known, treatment)
	// Withdraw prompts that the call left open, also those of an earlier attempt.
	if err := part.Part("run").Withdraw(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	end := part.Part("end")
	if err == nil {
		// The call took effect, so its result is stored even if the turn was stopped.
		_, err = end.Append(context.WithoutCancel(ctx), chat.AgentToolResult{CallID: c.id, Tool: c.tool, Result: result})
		if chat.CodeOf(err) == chat.TooLarge || chat.CodeOf(err) == chat.Invalid {
			err = &tool.Error{Code: tool.Failed, Msg: "the tool's result cannot be kept: " + chat.Public(err).Msg, Err: err}
		} else {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.ran != nil && c.ran.Error != "" {
		// Store the client's error text unchanged and without a code.
		_, err = end.Append(ctx, chat.AgentToolError{CallID: c.id, Tool: c.tool, Error: c.ran.Error})
		return err
	}
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Err != nil {
		r.opt.Logger.DebugContext(ctx, "a tool failed", "tool", c.tool, "session", r.turn.Ref().Session, "err", e.Err)
	}
	_, err = end.Append(ctx, chat.AgentToolError{CallID: c.id, Tool: c.tool, Error: tool.Clip(err.Error()), Code: tool.CodeOf(err)})
	return err
}

// approval waits for a person's decision on a call.
func (r *round) approval(ctx context.Context, c *call) (chat.Decision, error) {
	body, err := r.turn.Answer(ctx, c.request)
	if errors.Is(err, agent.ErrExpired) || errors.Is(err, agent.ErrWithdrawn) {
		return chat.Decision{}, nil
	}
	if err != nil {
		return chat.Decision{}, err
	}
	answer, _ := body.(chat.UserApprovalResponse)
	for _, d := range answer.Decisions {
		if d.CallID == c.id {
			return d, nil
		}
	}
	return chat.Decision{}, nil
}

// use runs the tool, or returns the error that prevents the call.
func (r *round) use(ctx context.Context, part *agent.Turn, c *call, t *tool.Tool, known bool, treatment tool.Treatment) (json.RawMessage, error) {
	switch {
	case c.ran != nil && c.ran.Error != "":
		return nil, &tool.Error{Code: tool.Failed, Msg: c.ran.Error}
	case c.ran != nil:
		return c.ran.Result, nil // the client that answered has executed it
	case known && t.Client:
		return nil, &tool.Error{Code: tool.Lost, Msg: "the client was to run this tool, and gave no result"}
	case !known:
		return nil, &tool.Error{Code: tool.Unknown, Msg: fmt.Sprintf("there is no tool %q; there are: %s", c.tool, r.names())}
	case !readable(c.params):
		return nil, &tool.Error{Code: tool.Invalid, Msg: "the arguments are not a JSON object; give them again as one, complete and well-formed"}
	case tool.Repeats(c.params, func(name string) string { return name }):
		return nil, &tool.Error{Code: tool.Invalid, Msg: "a name occurs twice in an object of the arguments; give each name once"}
	case c.marked && !c.repeatable:
		return nil, &tool.Error{Code: tool.Lost, Msg: agent.ErrUnknownOutcome.Error()}
	}
	if err := r.requestScopes(ctx, part.Part("permit"), c, treatment.Scopes); err != nil {
		return nil, err
	}
	if !c.repeatable {
		if _, err := part.Part("mark").Append(ctx, chat.AgentToolProgress{CallID: c.id, Tool: c.tool, Message: running}); err != nil {
			return nil, err
		}
	}
	use := tool.Call{ID: c.id, Tool: c.tool, Params: c.params, Turn: part.Part("run"), Timeout: treatment.Timeout}
	if use.Timeout == 0 {
		use.Timeout = r.opt.Timeout
	}
	result, err := r.runWithTimeout(ctx, t, use)
	if tool.CodeOf(err) == tool.Lost && err != nil && c.repeatable && ctx.Err() == nil {
		result, err = r.runWithTimeout(ctx, t, use)
	}
	if err == nil && !json.Valid(result) {
		result = json.AppendString(nil, string(result))
	}
	return result, err
}

// runWithTimeout runs a tool with its timeout. A tool that is Untimed enforces the timeout
// itself.
func (r *round) runWithTimeout(ctx context.Context, t *tool.Tool, use tool.Call) (json.RawMessage, error) {
	if t.Untimed {
		return t.Run(ctx, use)
	}
	limited, cancel := context.WithTimeout(ctx, use.Timeout)
	defer cancel()
	result, err := t.Run(limited, use)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil, &tool.Error{Code: tool.TimedOut, Msg: fmt.Sprintf("the tool gave no answer within %s; whether it took effect is not known", use.Timeout), Err: err}
	}
	return result, err
}

// readable reports whether the arguments are a JSON object and not the wrapper for
// malformed arguments.
func readable(params json.RawMessage) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(params, &object) != nil {
		return false
	}
	_, broken := object["_malformed_tool_arguments"]
	return !broken
}

func (r *round) find(name string) (*tool.Tool, bool) {
	i := slices.IndexFunc(r.tools, func(t tool.Tool) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	return &r.tools[i], true
}

func (r *round) treat(name string, params json.RawMessage) (tool.Treatment, bool) {
	t, ok := r.find(name)
	switch {
	case !ok:
		return tool.Treatment{Approval: tool.Never}, false
	case t.Client:
		return tool.Treatment{Approval: tool.Always, Client: true}, true // the operator's rules do not apply to client tools
	}
	return tool.Treat(t, r.opt.Rules, params), true
}

func (r *round) names() string {
	var names []string
	for i := range r.tools {
		names = append(names, r.tools[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
