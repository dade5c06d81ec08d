package llm

// returnsOf lists what a tool message says of its calls: its returns, or what
// older messages have instead.
func returnsOf(m *Message) []ToolReturn {
	if len(m.ToolReturns) > 0 {
		out := m.ToolReturns
		// Letta leaves the id out where the message itself names the only call.
		if len(out) == 1 && out[0].ToolCallID == "" && m.ToolCallID != "" {
			r := out[0]
			r.ToolCallID = m.ToolCallID
			out = []ToolReturn{r}
		}
		return out
	}
	var out []ToolReturn
	for _, p := range m.Content {
		if p, ok := p.(*ReturnPart); ok {
			r := ToolReturn{ToolCallID: p.ToolCallID, Status: Success, Text: p.Content}
			if p.IsError {
				r.Status = Failure
			}
			out = append(out, r)
		}
	}
	if len(out) == 0 && m.ToolCallID != "" {
		text := m.PlainText()
		r := ToolReturn{ToolCallID: m.ToolCallID, Status: Success, Text: text}
		if _, failed, ok := UnpackResult(text); ok && failed || m.IsErr != nil && *m.IsErr {
			r.Status = Failure
		}
		out = append(out, r)
	}
	return out
}

// Returns lists what a tool message says of its calls, in whatever form.
func (m *Message) Returns() []ToolReturn { return returnsOf(m) }

// verdictsOf lists the answers of an approval response, the older form of one
// answer included; request is what it answers, if that is known.
func verdictsOf(m, request *Message) []Verdict {
	if m.Approvals != nil || m.Approve == nil {
		return m.Approvals
	}
	var out []Verdict
	if request != nil {
		for _, c := range request.ToolCalls {
			out = append(out, &ToolApproval{ToolCallID: c.ID, Approve: *m.Approve, Reason: m.DenialReason})
		}
	} else if m.ToolCallID != "" {
		out = append(out, &ToolApproval{ToolCallID: m.ToolCallID, Approve: *m.Approve, Reason: m.DenialReason})
	}
	return out
}

// Failed reports whether a return tells of an error, in its status or in its
// text (see PackResult).
func (r *ToolReturn) Failed() bool {
	if r.Status == Failure {
		return true
	}
	_, failed, _ := UnpackResult(r.Text)
	return failed
}
