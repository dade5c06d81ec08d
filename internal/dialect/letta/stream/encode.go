package stream

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// MarshalJSON writes the item in the form of its kind.
func (it *Item) MarshalJSON() ([]byte, error) {
	h := header{
		ID: it.ID, Date: it.Date.UTC().Format(dateLayout), Name: orNull(it.name), Kind: it.Kind, OTID: orNull(it.otid),
		Sender: orNull(it.sender), Step: orNull(it.step), Seq: orNull(int64(it.Seq)), Run: orNull(it.Run),
	}
	switch it.Kind {
	case KindPing:
		return json.Marshal(h)
	case KindReasoning:
		source := "non_reasoner_model"
		if it.native {
			source = "reasoner_model"
		}
		return json.Marshal(reasoningMessage{h, it.text, source, orNull(it.signature)})
	case KindHidden:
		return json.Marshal(hiddenMessage{h, it.state, orNull(it.text)})
	case KindToolCall, KindApprovalRequest:
		return json.Marshal(it.callsMessage(h))
	case KindToolReturn:
		return json.Marshal(it.returnsMessage(h))
	case KindApprovalResponse:
		return json.Marshal(it.approvalMessage(h))
	case KindSummary:
		m := summaryMessage{header: h, Summary: it.text}
		if s := it.stats; s != nil {
			m.Stats = &compactionStats{s.Trigger, orNull(s.TokensBefore), orNull(s.TokensAfter), s.ContextWindow, s.MessagesBefore, s.MessagesAfter}
		}
		return json.Marshal(m)
	case KindEvent:
		var s llm.Compaction
		if it.stats != nil {
			s = *it.stats
		}
		return json.Marshal(eventMessage{h, "compaction", compactionEvent{orNull(s.Trigger), orNull(s.TokensBefore), orNull(s.ContextWindow)}})
	}
	if it.parts != nil {
		return json.Marshal(contentMessage{h, json.RawMessage(llm.AppendParts(nil, it.parts))})
	}
	return json.Marshal(contentMessage{h, it.text})
}

// MarshalList writes a list of items. json.Marshal would read the JSON of each item again.
func MarshalList(items []Item) ([]byte, error) {
	b := []byte{'['}
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		item, err := items[i].MarshalJSON()
		if err != nil {
			return nil, err
		}
		b = append(b, item...)
	}
	return append(b, ']'), nil
}

func (it *Item) callsMessage(h header) callsMessage {
	m := callsMessage{header: h}
	calls := make([]toolCall, len(it.calls))
	for i, c := range it.calls {
		calls[i] = toolCall{c.Name, c.Arguments, c.ID}
	}
	if len(calls) > 0 {
		m.Call = &calls[0]
	}
	if m.Calls = calls; it.Delta && m.Call != nil {
		m.Calls = m.Call
	}
	return m
}

func (it *Item) returnsMessage(h header) returnsMessage {
	m := returnsMessage{header: h, outcome: outcomeOf(&llm.ToolReturn{}), Returns: make([]toolReturn, len(it.returns))}
	for i := range it.returns {
		m.Returns[i] = returnOf(&it.returns[i])
	}
	if len(it.returns) > 0 {
		m.Return, m.outcome = returnText(&it.returns[0]), m.Returns[0].outcome
	}
	return m
}

func returnOf(r *llm.ToolReturn) toolReturn {
	if r.Parts != nil {
		return toolReturn{"tool", json.RawMessage(llm.AppendParts(nil, r.Parts)), outcomeOf(r)}
	}
	return toolReturn{"tool", returnText(r), outcomeOf(r)}
}

func outcomeOf(r *llm.ToolReturn) outcome {
	status := llm.Success
	if r.Failed() {
		status = llm.Failure
	}
	return outcome{status, r.ToolCallID, r.Stdout, r.Stderr}
}

func (it *Item) approvalMessage(h header) approvalMessage {
	m := approvalMessage{header: h, Approvals: make([]any, len(it.verdicts))}
	for i, v := range it.verdicts {
		switch v := v.(type) {
		case *llm.ToolApproval:
			m.Approvals[i] = toolApproval{"approval", v.ToolCallID, v.Approve, orNull(v.Reason)}
			if i == 0 {
				m.Approve, m.Reason = &v.Approve, orNull(v.Reason)
			}
		case *llm.ToolReturn:
			m.Approvals[i] = returnOf(v)
		}
	}
	if len(it.verdicts) > 0 {
		m.Request = orNull(it.verdicts[0].CallID())
	}
	return m
}

// orNull returns nil for the zero value, which JSON writes as null.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// AppendFrame appends v, an [*Item], [Stop], [Usage] or [Failure], as an event of a stream.
func AppendFrame(b []byte, v any) ([]byte, error) {
	var data []byte
	var err error
	switch v := v.(type) {
	case *Item:
		data, err = v.MarshalJSON() // json.Marshal would read the result again
	case Failure:
		b = append(b, "event: error\n"...)
		data, err = json.Marshal(v)
	default:
		data, err = json.Marshal(v)
	}
	if err != nil {
		return b, err
	}
	b = append(append(b, "data: "...), data...)
	return append(b, '\n', '\n'), nil
}

// NewUsage returns the usage frame of the given runs; the last one has just ended.
func NewUsage(u chat.Usage, steps int, runs []string) Usage {
	return Usage{
		Kind: KindUsage, PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens,
		StepCount: steps, CachedTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheCreationTokens, ReasoningTokens: u.ReasoningTokens, RunIDs: runs,
	}
}
