package llm

// returnsOf returns the tool results of a tool message: its ToolReturns, or the older
// forms in its content.
func returnsOf(m *Message) []ToolReturn {
	if len(m.ToolReturns) > 0 {
		out := m.ToolReturns
		// Letta omits the id of a single return when the message has it.
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

// Returns returns the tool results of a tool message, including older forms.
func (m *Message) Returns() []ToolReturn { return returnsOf(m) }

// verdictsOf returns the verdicts of an approval response, including the older form of
// a single approval; request is the approval request, nil if unknown.
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

// Failed reports whether the status or the text (see PackResult) says that the call
// failed.
func (r *ToolReturn) Failed() bool {
	if r.Status == Failure {
		return true
	}
	_, failed, _ := UnpackResult(r.Text)
	return failed
}
