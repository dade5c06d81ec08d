package httpagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// LangGraph has its own interrupts, older than those of AG-UI: the run ends after
// the custom event on_interrupt, whose value is the argument of interrupt() in the
// graph. The next run reads the answer from forwardedProps.command.resume.
const graphInterrupt = "on_interrupt"

// graphPromptID is the prefix of the id of such a prompt in a roundRecord.
const graphPromptID = "graph:"

// graphPrompt is an interrupt of a graph.
type graphPrompt struct {
	id    string
	value any
}

// parseGraphInterrupt reads the custom event.
func parseGraphInterrupt(e *aguiEvent) graphPrompt {
	var raw struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(e.Raw, &raw) // older servers send no id
	q := graphPrompt{id: raw.ID}
	if json.Unmarshal(e.Value, &q.value) != nil {
		return q
	}
	var inner any
	if text, ok := q.value.(string); ok && json.Unmarshal([]byte(text), &inner) == nil && inner != nil {
		q.value = inner // values that are no strings arrive as JSON in a string
	}
	return q
}

// request is the interrupt as a prompt. Its text and options come from the field
// names that graphs usually have.
func (q graphPrompt) request(o *output) promptRequest {
	out := promptRequest{id: graphPromptID + q.id}
	object, _ := q.value.(map[string]any)
	if calls := graphCalls(object, o); len(calls) > 0 {
		out.body = chat.AgentApprovalRequest{Text: graphText(object), Calls: calls}
		return out
	}
	text := graphText(object)
	if text == "" && q.value != nil {
		if text, _ = q.value.(string); text == "" {
			b, _ := json.Marshal(q.value)
			text = string(b)
		}
	}
	var options []string
	for _, name := range []string{"options", "choices"} {
		list, _ := object[name].([]any)
		for _, o := range list {
			if s, ok := o.(string); ok && s != "" {
				options = append(options, s)
			}
		}
	}
	out.body = choice(text, options)
	return out
}

// graphText is the text of an interrupt.
func graphText(object map[string]any) string {
	for _, name := range []string{"question", "message", "prompt", "text", "query", "description"} {
		if s, ok := object[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// graphCalls are the calls for which LangChain's middleware needs an approval: the
// open calls with the same tool, where there are some.
func graphCalls(object map[string]any, o *output) []chat.ApprovalCall {
	list, _ := object["action_requests"].([]any)
	var out []chat.ApprovalCall
	open := slices.Clone(o.openCalls)
	for i, one := range list {
		request, _ := one.(map[string]any)
		name, _ := request["name"].(string)
		args, err := json.Marshal(request["args"])
		if name == "" || err != nil || i >= 100 {
			return nil
		}
		id := fmt.Sprintf("g%s-%d", o.root.Label(), i+1)
		if at := slices.IndexFunc(open, func(id string) bool { return o.calls[id].Tool == name }); at >= 0 {
			id = o.calls[open[at]].CallID
			open = slices.Delete(open, at, at+1)
		}
		out = append(out, chat.ApprovalCall{CallID: id, Tool: name, Params: args})
	}
	return out
}

// graphAnswer is the answer for the graph: a text, or the decisions.
func graphAnswer(one *promptAnswer) any {
	if q := one.prompt.Approval; q != nil {
		b, _ := one.body.(chat.UserApprovalResponse) // none when nobody answered
		return map[string]any{"decisions": graphDecisions(b, q.Calls)}
	}
	b, _ := one.body.(chat.UserInputResponse)
	return answerPayload("text", b)
}

// graphDecisions are the decisions in the middleware's form, one for each call.
func graphDecisions(b chat.UserApprovalResponse, asked []chat.ApprovalCall) []map[string]any {
	out := []map[string]any{}
	for _, call := range asked {
		one := map[string]any{"type": "reject", "message": "nobody approved it"}
		for _, d := range b.Decisions {
			switch {
			case d.CallID != call.CallID:
			case d.Approve && len(d.Params) > 0:
				one = map[string]any{"type": "edit", "edited_action": map[string]any{"name": call.Tool, "args": d.Params}}
			case d.Approve:
				one = map[string]any{"type": "approve"}
			default:
				one["message"] = strings.TrimSpace("a person refused it. " + d.Reason)
			}
		}
		out = append(out, one)
	}
	return out
}

// graphResume is command.resume of the next run: the answer, or the answers by
// their ids when there are several; nil when the graph had no interrupt.
func (u *aguiRun) graphResume() any {
	var only any
	byID := map[string]any{}
	for i := range u.r.answers {
		one := &u.r.answers[i]
		rest, ok := strings.CutPrefix(one.id, graphPromptID)
		if !ok {
			continue
		}
		only = graphAnswer(one)
		byID[rest] = only
	}
	if len(byID) > 1 {
		return byID
	}
	return only
}
