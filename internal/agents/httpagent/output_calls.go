package httpagent

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// restoreCall restores a tool call of an earlier round, whose result may still
// arrive, and the ids of calls that a person was asked to approve.
func (o *output) restoreCall(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.AgentApprovalRequest:
		for _, c := range b.Calls {
			o.asked[endpointCallID(c.CallID)] = c.CallID
		}
	case chat.AgentToolCall:
		id := endpointCallID(b.CallID)
		o.calls[id], o.openCalls = b, append(o.openCalls, id)
	case chat.AgentToolResult:
		o.closeCall(endpointCallID(b.CallID))
	case chat.AgentToolError:
		o.closeCall(endpointCallID(b.CallID))
	}
}

// closeCall removes a call from the open ones and reports whether it was one.
func (o *output) closeCall(id string) bool {
	before := len(o.openCalls)
	o.openCalls = slices.DeleteFunc(o.openCalls, func(one string) bool { return one == id })
	return len(o.openCalls) < before
}

// call stores a tool call; id is the endpoint's. A second call with the same id
// is ignored.
func (o *output) call(ctx context.Context, id, tool string, params json.RawMessage) error {
	if _, twice := o.calls[id]; twice {
		return nil
	}
	if tool == "" {
		tool = "tool"
	}
	if err := o.endBlock(ctx); err != nil {
		return err
	}
	e, err := o.store(ctx, chat.AgentToolCall{CallID: o.newCallID(id), Tool: text.Clip(tool, 200), Params: asObject(limitJSON(params))})
	if err != nil {
		return err
	}
	o.calls[id], _ = e.Body.(chat.AgentToolCall) // the stored one may be of an earlier attempt
	o.openCalls = append(o.openCalls, id)
	return nil
}

// newCallID makes the endpoint's id unique in the session: many endpoints start
// with call_1 in every turn. A call that a person was asked to approve keeps the id
// that it had then.
func (o *output) newCallID(id string) string {
	id = text.Clip(id, 96)
	if asked, ok := o.asked[id]; ok {
		return asked
	}
	ours := "c" + o.root.Label() + "-" + id
	if o.attempt > 1 {
		ours += "-a" + strconv.Itoa(o.attempt)
	}
	return ours
}

// endpointCallID is the reverse of newCallID.
func endpointCallID(callID string) string {
	head, rest, ok := strings.Cut(callID, "-")
	if _, err := strconv.ParseUint(strings.TrimPrefix(head, "c"), 10, 64); !ok || err != nil {
		return callID
	}
	if i := strings.LastIndex(rest, "-a"); i > 0 {
		if n, err := strconv.Atoi(rest[i+2:]); err == nil && n > 1 && n < 10 { // an attempt, not the end of the endpoint's id
			rest = rest[:i]
		}
	}
	return rest
}

// sessionCallID is the session's id of a call that the endpoint made or will make.
func (o *output) sessionCallID(id string) string {
	if c, ok := o.calls[id]; ok {
		return c.CallID
	}
	return o.newCallID(id)
}

// result stores the result of a tool call, or its error when problem is not empty.
// A result without a call stores both; a second result is ignored.
func (o *output) result(ctx context.Context, id string, result json.RawMessage, problem string) error {
	if _, ok := o.calls[id]; !ok {
		if err := o.call(ctx, id, "tool", nil); err != nil {
			return err
		}
	}
	if !o.closeCall(id) {
		return nil
	}
	c := o.calls[id]
	var body chat.Body = chat.AgentToolResult{CallID: c.CallID, Tool: c.Tool, Result: limitJSON(result)}
	if problem != "" {
		body = chat.AgentToolError{CallID: c.CallID, Tool: c.Tool, Error: text.Clip(problem, 8<<10)}
	}
	_, err := o.store(ctx, body)
	return err
}

// noResult is the result of a tool that the endpoint ran without reporting one.
var noResult = json.RawMessage("null")

// closeCalls stores a result for every open call from the given one on: an error
// when problem is not empty, else noResult.
func (o *output) closeCalls(ctx context.Context, from int, problem string) error {
	for _, id := range slices.Clone(o.openCalls[from:]) {
		if err := o.result(ctx, id, noResult, problem); err != nil {
			return err
		}
	}
	return nil
}
