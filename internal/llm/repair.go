package llm

import (
	"slices"
	"strconv"
)

// Repair returns the messages in a form that every provider accepts. It does not
// change its argument. In the result:
//
//   - An approval request is an assistant message with its calls. Approval
//     responses are removed; a denial or a client's result becomes the result of
//     a call that has no other.
//   - An assistant message with calls is directly followed by one tool message
//     with exactly one return per call, in the order of the calls. Returns that
//     came later are moved there, missing returns are replaced with an error, and
//     returns without a call are omitted.
//   - No two calls have the same id.
//   - An unanswered approval request at the end is omitted, together with an
//     assistant message with calls directly before it. Empty messages are omitted.
func Repair(messages []Message) []Message {
	r := repairer{in: dropOpen(messages), unused: map[string][]*found{}, calls: map[string][]int{}, used: map[string]bool{}}
	r.collect()
	for i := range r.in {
		r.message(&r.in[i], i)
	}
	for n := len(r.out) - 1; n >= 0 && r.out[n].Role == Assistant && len(r.out[n].ToolCalls) == 0 && r.out[n].PlainText() == ""; n-- {
		r.out = r.out[:n]
	}
	if len(r.out) == 0 {
		return nil
	}
	return r.out
}

// dropOpen omits approval requests without a usable response: a request at the end, or
// one that a summary separates from its response.
func dropOpen(in []Message) []Message {
	out := slices.Clone(in)
	for i := 0; i+1 < len(out); i++ {
		if out[i].IsApprovalRequest() && out[i+1].Role == Summary && (i+2 == len(out) || out[i+2].IsApprovalResponse()) {
			out = slices.Delete(out, i, i+1)
			i--
		}
	}
	if n := len(out) - 1; n >= 0 && out[n].IsApprovalRequest() {
		out = out[:n]
		if n > 0 && out[n-1].Role == Assistant && len(out[n-1].ToolCalls) > 0 {
			out = out[:n-1]
		}
	}
	return out
}

type repairer struct {
	in, out []Message
	unused  map[string][]*found // unassigned returns by call id, in the order of the log
	calls   map[string][]int    // indexes of the messages with a call of that id
	used    map[string]bool     // call ids in out
	last    int                 // index in in of the last assistant message of out
}

// found is a return that is not yet assigned to a call.
type found struct {
	ToolReturn
	at   int  // index of its message
	weak bool // use it only if there is no other
}

// collect gathers the calls and the returns by call id.
func (r *repairer) collect() {
	for i := range r.in {
		m := &r.in[i]
		if m.Role == Assistant || m.IsApprovalRequest() {
			for _, c := range m.ToolCalls {
				r.calls[c.ID] = append(r.calls[c.ID], i)
			}
		}
		switch {
		case m.Role == Tool:
			for _, t := range m.ToolReturns {
				r.unused[t.ToolCallID] = append(r.unused[t.ToolCallID], &found{ToolReturn: t, at: i})
			}
		case m.IsApprovalResponse():
			for _, v := range m.Approvals {
				if f := fromVerdict(v); f != nil {
					f.at = i
					r.unused[v.CallID()] = append(r.unused[v.CallID()], f)
				}
			}
		}
	}
}

// fromVerdict returns the result that an approval response contains for a call: the
// result of a tool that the client ran, or a denial. It returns nil for an approval.
func fromVerdict(v Verdict) *found {
	switch v := v.(type) {
	case *ToolReturn:
		return &found{ToolReturn: *v, weak: true}
	case *ToolApproval:
		if !v.Approve {
			return &found{ToolReturn: ToolReturn{ToolCallID: v.ToolCallID, Status: Failure, Text: denial(v.Reason)}, weak: true}
		}
	}
	return nil
}

func (r *repairer) message(m *Message, at int) {
	switch {
	case m.Role == Tool, m.IsApprovalResponse():
		return // assistant adds its returns after their calls
	case m.Role == Assistant, m.IsApprovalRequest():
		r.assistant(m, at)
	default:
		if len(m.Content) > 0 {
			r.out = append(r.out, *m)
		}
	}
}

func (r *repairer) assistant(m *Message, at int) {
	c := *m
	c.Role, c.ToolCalls, c.OTID, c.ToolCallID = Assistant, nil, "", ""
	var returns []ToolReturn
	seen := map[string]bool{}
	for _, call := range m.ToolCalls {
		if seen[call.ID] || r.repeats(call) {
			continue
		}
		seen[call.ID] = true
		ret := r.takeReturn(call, at)
		call.ID = r.unique(call.ID)
		ret.ToolCallID = call.ID
		c.ToolCalls = append(c.ToolCalls, call)
		returns = append(returns, ret)
	}
	if len(c.Content) == 0 && len(c.ToolCalls) == 0 {
		return
	}
	// A request right after the assistant message of its step is joined with it.
	if m.Role == Approval && r.follows(at) {
		r.join(c, returns)
		r.last = at
		return
	}
	r.out, r.last = append(r.out, c), at
	if len(returns) > 0 {
		r.out = append(r.out, toolMessage(&c, returns))
	}
}

// repeats reports whether a call repeats an earlier one: its id was used, and there is
// no further return for it.
func (r *repairer) repeats(c ToolCall) bool {
	return r.used[c.ID] && len(r.unused[c.ID]) == 0
}

// takeReturn returns the result of a call and removes it from unused.
func (r *repairer) takeReturn(c ToolCall, at int) ToolReturn {
	list := r.unused[c.ID]
	best := -1
	for i, f := range list {
		if f.at > at && (best < 0 || list[best].weak && !f.weak) {
			best = i
		}
	}
	if best < 0 {
		return ToolReturn{Status: Failure, Text: "Error: this tool call has no result; it was cut off and may or may not have taken effect."}
	}
	ret := list[best].ToolReturn
	// Further results are duplicates, unless another call with the same id
	// precedes them.
	next := len(r.in)
	for _, i := range r.calls[c.ID] {
		if i > list[best].at {
			next = i
			break
		}
	}
	r.unused[c.ID] = slices.DeleteFunc(slices.Clone(list), func(f *found) bool { return f.at < next })
	return ret
}

// unique returns a call id that no other call has.
func (r *repairer) unique(id string) string {
	if id == "" {
		id = "call"
	}
	name := id
	for n := 2; r.used[name]; n++ {
		name = id + "_" + strconv.Itoa(n)
	}
	r.used[name] = true
	return name
}

// follows reports whether the previous message is the assistant message of the request
// at index at.
func (r *repairer) follows(at int) bool {
	return at > 0 && r.last == at-1 && r.in[at-1].Role == Assistant && len(r.out) > 0
}

// join adds the content and calls of a request to the assistant message before it.
func (r *repairer) join(c Message, returns []ToolReturn) {
	n := len(r.out) - 1
	var before []ToolReturn
	if r.out[n].Role == Tool {
		before = r.out[n].ToolReturns
		r.out = r.out[:n]
		n--
	}
	a := r.out[n]
	a.Content = slices.Concat(a.Content, c.Content)
	a.ToolCalls = slices.Concat(a.ToolCalls, c.ToolCalls)
	if a.Model == "" {
		a.Model = c.Model
	}
	r.out[n] = a
	if returns = slices.Concat(before, returns); len(returns) > 0 {
		r.out = append(r.out, toolMessage(&a, returns))
	}
}

// toolMessage returns the tool message for the calls of an assistant message.
func toolMessage(a *Message, returns []ToolReturn) Message {
	return Message{
		Role: Tool, Name: a.ToolCalls[0].Name, ToolCallID: returns[0].ToolCallID, ToolReturns: returns,
		StepID: a.StepID, RunID: a.RunID, AgentID: a.AgentID, ConversationID: a.ConversationID, CreatedAt: a.CreatedAt,
	}
}
