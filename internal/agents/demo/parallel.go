package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// maxTools bounds the calls of one /tools command.
const maxTools = 20

// parallelCall is one call of a /tools command.
type parallelCall struct {
	id     string
	tool   string
	params json.RawMessage
	fails  bool // NAME!
	asks   bool // NAME?, or a tool of the client's
	client bool
	gave   string
}

// parseTools reads "NAME JSON; NAME JSON …". The JSON of a call may be left out.
// NAME! fails, NAME? is called only after a person approved it.
func parseTools(args string) (calls []parallelCall, ok bool) {
	for rest := strings.TrimSpace(args); rest != ""; {
		end := strings.IndexAny(rest, " ;")
		if end < 0 {
			end = len(rest)
		}
		c := parallelCall{tool: rest[:end], params: json.RawMessage("{}")}
		if rest = strings.TrimSpace(rest[end:]); rest != "" && rest[0] != ';' {
			d := json.NewDecoder(strings.NewReader(rest))
			if d.Decode(&c.params) != nil {
				return nil, false
			}
			c.params = bytes.TrimSpace(c.params)
			rest = strings.TrimSpace(rest[d.InputOffset():])
		}
		if rest != "" {
			if rest[0] != ';' {
				return nil, false
			}
			rest = strings.TrimSpace(rest[1:])
		}
		c.tool, c.fails = strings.CutSuffix(c.tool, "!")
		c.tool, c.asks = strings.CutSuffix(c.tool, "?")
		if c.tool == "" {
			return nil, false
		}
		calls = append(calls, c)
	}
	return calls, len(calls) > 0 && len(calls) <= maxTools
}

// tools makes several calls in one step, as models do. The results come in the
// opposite order, so that clients do not rely on the order of the calls. What needs an
// approval, and what the client runs itself, is asked for in one request;
// the other tools of the step return meanwhile.
func tools(ctx context.Context, t *agent.Turn, args string) error {
	calls, ok := parseTools(args)
	if !ok {
		return say(ctx, t, fmt.Sprintf("Usage: /tools NAME JSON; NAME JSON …, with 1 to %d calls. NAME! fails, NAME? is asked for first.", maxTools))
	}
	var bodies []chat.Body
	var ask chat.AgentApprovalRequest
	for i := range calls {
		c := &calls[i]
		c.id, c.client = fmt.Sprintf("c%s-tools-%d", t.Label(), i+1), isClientTool(t, c.tool)
		if c.asks = c.asks || c.client; c.asks {
			ask.Calls = append(ask.Calls, chat.ApprovalCall{CallID: c.id, Tool: c.tool, Params: c.params, Client: c.client})
			continue
		}
		bodies = append(bodies, chat.AgentToolCall{CallID: c.id, Tool: c.tool, Params: c.params, Repeatable: true})
	}
	if len(ask.Calls) > 0 {
		ask.Text = fmt.Sprintf("May I make these %d calls?", len(ask.Calls))
		bodies = append(bodies, ask)
	}
	stored, err := t.AppendAll(ctx, bodies...)
	if err != nil {
		return err
	}
	for i := range slices.Backward(calls) {
		if c := &calls[i]; !c.asks {
			if err := c.end(ctx, t, chat.Decision{}); err != nil {
				return err
			}
		}
	}
	if request, ok := stored[len(stored)-1].Body.(chat.AgentApprovalRequest); ok {
		if err := decided(ctx, t, calls, request.RequestID); err != nil {
			return err
		}
	}
	var lines []string
	for i := range calls {
		lines = append(lines, calls[i].tool+" "+calls[i].gave)
	}
	return say(ctx, t, strings.Join(lines, "\n"))
}

// decided waits for the decisions on the calls that were asked for, and ends these calls.
func decided(ctx context.Context, t *agent.Turn, calls []parallelCall, request string) error {
	body, err := t.Answer(ctx, request)
	if err != nil && !errors.Is(err, agent.ErrExpired) && !errors.Is(err, agent.ErrWithdrawn) {
		return err
	}
	answer, _ := body.(chat.UserApprovalResponse)
	for i := range slices.Backward(calls) {
		c := &calls[i]
		at := slices.IndexFunc(answer.Decisions, func(d chat.Decision) bool { return d.CallID == c.id })
		switch {
		case !c.asks:
			continue
		case at < 0 || !answer.Decisions[at].Approve:
			c.gave = "was not allowed"
			continue
		}
		d := answer.Decisions[at]
		if len(d.Params) > 0 {
			c.params = d.Params
		}
		if _, err := t.Append(ctx, chat.AgentToolCall{CallID: c.id, Tool: c.tool, Params: c.params, Repeatable: true}); err != nil {
			return err
		}
		if err := c.end(ctx, t, d); err != nil {
			return err
		}
	}
	return nil
}

// end stores what came of a call: its parameters, an error, or what the client
// that ran it says.
func (c *parallelCall) end(ctx context.Context, t *agent.Turn, d chat.Decision) error {
	failed, result := d.Error, d.Result
	if c.fails && !d.Ran() {
		failed = c.tool + " failed on request"
	}
	if failed != "" {
		c.gave = "failed: " + failed
		_, err := t.Append(ctx, chat.AgentToolError{CallID: c.id, Tool: c.tool, Error: failed})
		return err
	}
	if len(result) == 0 {
		result = c.params
	}
	c.gave = "gave " + string(result)
	_, err := t.Append(ctx, chat.AgentToolResult{CallID: c.id, Tool: c.tool, Result: result})
	return err
}
