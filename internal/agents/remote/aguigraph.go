package remote

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Graphs of LangGraph wait in a way of their own, older than AG-UI's interrupts: a
// run ends behind the custom event on_interrupt, whose value is whatever the graph
// gave to interrupt(), and the next run finds the answer in
// forwardedProps.command.resume.
const graphInterrupt = "on_interrupt"

// askedByGraph begins a record's id of such a question.
const askedByGraph = "graph:"

// graphQuestion is what a graph waits for.
type graphQuestion struct {
	id    string
	value any
}

// graphAsks reads a custom event.
func graphAsks(e *aguiEvent) graphQuestion {
	var raw struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(e.Raw, &raw) // older servers name none
	q := graphQuestion{id: raw.ID}
	if json.Unmarshal(e.Value, &q.value) != nil {
		return q
	}
	var inner any
	if text, ok := q.value.(string); ok && json.Unmarshal([]byte(text), &inner) == nil && inner != nil {
		q.value = inner // values other than texts are sent as JSON in a text
	}
	return q
}

// question is the value in the words of the log, as far as it has known ones.
func (q graphQuestion) question(s *output) question {
	out := question{id: askedByGraph + q.id}
	object, _ := q.value.(map[string]any)
	if calls := graphCalls(object, s); len(calls) > 0 {
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

// graphText is the sentence for people in a value.
func graphText(object map[string]any) string {
	for _, name := range []string{"question", "message", "prompt", "text", "query", "description"} {
		if s, ok := object[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// graphCalls are the calls that LangChain's middleware wants to have approved:
// those that were told of, as far as they were.
func graphCalls(object map[string]any, s *output) []chat.ApprovalCall {
	list, _ := object["action_requests"].([]any)
	var out []chat.ApprovalCall
	told := slices.Clone(s.open)
	for i, one := range list {
		request, _ := one.(map[string]any)
		name, _ := request["name"].(string)
		args, err := json.Marshal(request["args"])
		if name == "" || err != nil || i >= 100 {
			return nil
		}
		id := fmt.Sprintf("g%s-%d", s.root.Label(), i+1)
		if at := slices.IndexFunc(told, func(id string) bool { return s.calls[id].Tool == name }); at >= 0 {
			id = s.calls[told[at]].CallID
			told = slices.Delete(told, at, at+1)
		}
		out = append(out, chat.ApprovalCall{CallID: id, Tool: name, Params: args})
	}
	return out
}

// graphAnswer is what the graph is told: a text, or the decisions.
func graphAnswer(one *answered) any {
	if q := one.asked.Approval; q != nil {
		b, _ := one.body.(chat.UserApprovalResponse) // none when nobody answered
		return map[string]any{"decisions": graphDecisions(b, q.Calls)}
	}
	b, _ := one.body.(chat.UserInputResponse)
	return formed("text", reply(b))
}

// graphDecisions are the decisions in the middleware's words, one for each call.
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

// graphResume is what the next run finds in command.resume: the answer, or the
// answers by the ids of several questions; nil when the graph asked nothing.
func (u *aguiRun) graphResume() any {
	var only any
	byID := map[string]any{}
	for i := range u.r.answers {
		one := &u.r.answers[i]
		rest, ok := strings.CutPrefix(one.id, askedByGraph)
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
