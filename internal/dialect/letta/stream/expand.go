package stream

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// Expand returns the items of a message. All have the id of the message; their otids differ. With summaries, a summary is
// a summary message instead of a user message.
func Expand(m *llm.Message, summaries bool) []Item {
	it := Item{
		ID: m.ID, Run: m.RunID, Date: m.CreatedAt, step: m.StepID, sender: m.SenderID, name: m.Name,
		otid: cmp.Or(m.OTID, otidOf(m.ID, otidOfPerson)),
	}
	switch {
	case m.Role == llm.Assistant, m.IsApprovalRequest():
		return agentItems(m, it)
	case m.Role == llm.Tool:
		it.Kind, it.returns, it.otid = KindToolReturn, m.ToolReturns, otidOf(m.ID, 0)
	case m.Role == llm.Approval:
		it.Kind, it.verdicts = KindApprovalResponse, m.Approvals
	case m.Role == llm.System:
		it.Kind, it.text = KindSystem, m.PlainText()
	case m.Role == llm.Summary && summaries:
		it.Kind, it.text, it.stats = KindSummary, llm.UnpackSummary(m.PlainText()), llm.CompactionOf(m.PlainText())
	default:
		it.Kind = KindUser
		it.text, it.parts = userContent(m.Content)
	}
	return []Item{it}
}

// compaction returns what a stream shows of a summary that was made during its run: an event with the reason, and the summary.
func compaction(m *llm.Message) []Item {
	summary := Expand(m, true)
	event := Item{Kind: KindEvent, ID: strings.TrimPrefix(m.ID, llm.IDPrefix), Date: m.CreatedAt, stats: summary[0].stats}
	return append([]Item{event}, summary...)
}

// userContent returns one text, or the parts when there are more.
func userContent(parts []llm.Part) (string, []llm.Part) {
	if len(parts) == 1 {
		if t, ok := parts[0].(*llm.Text); ok {
			return t.Text, nil
		}
	}
	if parts == nil {
		parts = []llm.Part{}
	}
	return "", parts
}

// agentItems returns the items of an agent's message. Neighbouring parts of one kind become one item, and so do neighbouring
// tool calls.
func agentItems(m *llm.Message, base Item) (out []Item) {
	add := func(it Item, merges bool) {
		if n := len(out) - 1; merges && n >= 0 && out[n].Kind == it.Kind {
			out[n].join(&it)
			return
		}
		it.otid = otidOf(m.ID, len(out))
		out = append(out, it)
	}
	for _, p := range m.Content {
		if it, merges, ok := partItem(p, base); ok {
			add(it, merges)
		}
	}
	if m.IsApprovalRequest() {
		base.Kind, base.calls, base.otid = KindApprovalRequest, m.ToolCalls, cmp.Or(m.OTID, m.ID)
		return append(out, base)
	}
	for i := range m.ToolCalls {
		it := base
		it.Kind, it.calls = KindToolCall, m.ToolCalls[i:i+1:i+1]
		add(it, true)
	}
	return out
}

// join appends the content of a neighbour of the same kind.
func (it *Item) join(next *Item) {
	it.text += next.text
	it.signature = cmp.Or(it.signature, next.signature)
	it.calls = append(it.calls[:len(it.calls):len(it.calls)], next.calls...)
	it.returns = append(it.returns[:len(it.returns):len(it.returns)], next.returns...)
}

// partItem returns the item of one part of an agent's message; merges says that it is joined with a neighbour of its kind.
func partItem(p llm.Part, it Item) (_ Item, merges, ok bool) {
	switch p := p.(type) {
	case *llm.Text:
		it.Kind, it.text = KindAssistant, p.Text
		return it, true, p.Text != ""
	case *llm.Reasoning:
		it.Kind, it.text, it.signature, it.native = KindReasoning, p.Text, p.Signature, p.Native
		return it, true, true
	case *llm.SummarizedReasoning:
		it.Kind, it.text, it.signature, it.native = KindReasoning, p.PlainText(), p.Encrypted, true
		return it, false, it.text != ""
	case *llm.RedactedReasoning:
		it.Kind, it.state, it.text = KindHidden, "redacted", p.Data
		return it, false, true
	case *llm.OmittedReasoning:
		it.Kind, it.state = KindHidden, "omitted"
		return it, false, true
	}
	return it, false, false
}

// returnText returns the result of a call as text, without the JSON object that models get around it.
func returnText(r *llm.ToolReturn) (text string) {
	message, _, wrapped := llm.UnpackResult(r.Text)
	if !wrapped {
		return r.PlainText()
	}
	if json.Unmarshal(message, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, message) == nil {
		return b.String()
	}
	return string(message)
}

// otidOfPerson is the number of the otid of a message that has one item and whose sender gave no otid. The items of
// agents count from 0.
const otidOfPerson = 127

// otidOf returns the otid of the n-th item of a message: the UUID of its id with n in the lowest seven bits.
func otidOf(id string, n int) string {
	parsed, ok := chat.ParseID("", id[strings.IndexByte(id, '-')+1:])
	if !ok || n < 0 {
		return id
	}
	parsed[15] = parsed[15]&0x80 | byte(min(n, 127))
	return parsed.UUID()
}
