package letta

import (
	"bytes"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// form says how messages are shown.
type form struct {
	legacy    bool   // what the agent says is its thinking; it speaks by a tool
	assistant bool   // calls of that tool are shown as what it says
	tool      string // its name; "" means send_message
	argument  string // the argument that holds the words; "" means message
	summaries bool   // summaries are shown as such, not as messages of a user
}

// words returns what a call of the speaking tool says.
func (f form) words(c *llm.ToolCall) (string, bool) {
	if !f.legacy || !f.assistant || c.Name != first(f.tool, "send_message") {
		return "", false
	}
	var args map[string]json.RawMessage
	var text string
	ok := json.Unmarshal([]byte(c.Arguments), &args) == nil && json.Unmarshal(args[first(f.argument, "message")], &text) == nil
	return text, ok
}

// expand makes of a message what clients see of it.
func expand(m *llm.Message, f form) []item { return appendExpanded(nil, m, f) }

// appendExpanded adds what clients see of a message. All parts have the id of the
// message; their otids tell them apart.
func appendExpanded(out []item, m *llm.Message, f form) []item {
	base := item{
		id: m.ID, step: m.StepID, run: m.RunID, sender: m.SenderID, name: m.Name, date: m.CreatedAt, isErr: m.IsErr != nil && *m.IsErr,
	}
	switch {
	case m.Role == llm.Assistant, m.IsApprovalRequest():
		return f.agent(out, m, base)
	case m.Role == llm.Tool:
		base.kind, base.returns, base.otid = kindToolReturn, m.Returns(), otidOf(m.ID, 0)
	case m.Role == llm.Approval:
		base.kind, base.verdicts, base.otid = kindApprovalResponse, m.Approvals, first(m.OTID, otidOf(m.ID, ownOTID))
		if m.Approvals == nil && m.Approve != nil {
			base.verdicts = []llm.Verdict{&llm.ToolApproval{ToolCallID: m.ApprovalRequestID, Approve: *m.Approve, Reason: m.DenialReason}}
		}
	case m.Role == llm.System:
		base.kind, base.text, base.otid = kindSystem, m.PlainText(), first(m.OTID, otidOf(m.ID, ownOTID))
	case m.Role == llm.Summary && f.summaries:
		base.kind, base.text, base.otid = kindSummary, llm.UnpackSummary(m.PlainText()), first(m.OTID, otidOf(m.ID, ownOTID))
		base.stats = llm.CompactionOf(m.PlainText())
	default:
		base.kind, base.otid = kindUser, first(m.OTID, otidOf(m.ID, ownOTID))
		base.text, base.parts = userContent(m.Content)
	}
	return append(out, base)
}

// userContent is one text, or the parts when there is more.
func userContent(parts []llm.Part) (string, []llm.Part) {
	if len(parts) == 1 {
		if t, ok := parts[0].(*llm.Text); ok {
			return unwrap(t.Text), nil
		}
	}
	if parts == nil {
		parts = []llm.Part{}
	}
	return "", parts
}

// unwrap takes the text out of the wrapper that older agents put around it.
func unwrap(text string) string {
	if !strings.HasPrefix(text, "{") {
		return text
	}
	var w struct {
		Type    string  `json:"type"`
		Message *string `json:"message"`
	}
	if json.Unmarshal([]byte(text), &w) == nil && w.Type == "user_message" && w.Message != nil {
		return *w.Message
	}
	return text
}

// agent expands what an agent said, thought and called.
func (f form) agent(out []item, m *llm.Message, base item) []item {
	before := len(out)
	add := func(it item) {
		it.otid = otidOf(m.ID, len(out)-before)
		out = append(out, it)
	}
	for _, p := range m.Content {
		it, merges, ok := f.part(p, base)
		if !ok {
			continue
		}
		if n := len(out) - 1; merges && n >= before && out[n].kind == it.kind {
			out[n].text += it.text
			out[n].signature = first(out[n].signature, it.signature)
			continue
		}
		add(it)
	}
	if m.IsApprovalRequest() {
		base.kind, base.calls, base.otid = kindApprovalRequest, m.ToolCalls, first(m.OTID, m.ID)
		return append(out, base)
	}
	base.kind = kindToolCall
	var group []llm.ToolCall
	flush := func() {
		if len(group) > 0 {
			it := base
			it.calls = group
			add(it)
			group = nil
		}
	}
	for i := range m.ToolCalls {
		if text, ok := f.words(&m.ToolCalls[i]); ok {
			flush()
			it := base
			it.kind, it.text = kindAssistant, text
			add(it)
			continue
		}
		group = append(group, m.ToolCalls[i])
	}
	flush()
	return out
}

// part shows one part of what an agent said; merges says that neighbours of its
// kind are one.
func (f form) part(p llm.Part, it item) (_ item, merges, ok bool) {
	switch p := p.(type) {
	case *llm.Text:
		it.kind, it.text = kindAssistant, p.Text
		if f.legacy {
			it.kind = kindReasoning
		}
		return it, true, p.Text != ""
	case *llm.Reasoning:
		it.kind, it.text, it.signature, it.native = kindReasoning, p.Text, p.Signature, p.Native
		return it, true, true
	case *llm.SummarizedReasoning:
		it.kind, it.text, it.signature, it.native = kindReasoning, p.PlainText(), p.Encrypted, true
		return it, false, it.text != ""
	case *llm.RedactedReasoning:
		it.kind, it.state, it.text = kindHidden, "redacted", p.Data
		return it, false, true
	case *llm.OmittedReasoning:
		it.kind, it.state = kindHidden, "omitted"
		return it, false, true
	}
	return it, false, false
}

// hideReturns leaves out what came of speaking: it is no news to anybody.
func (f form) hideReturns(list []llm.Message) []llm.Message {
	if !f.legacy || !f.assistant {
		return list
	}
	spoke := map[string]bool{}
	out := make([]llm.Message, 0, len(list))
	for _, m := range list {
		for i := range m.ToolCalls {
			if _, ok := f.words(&m.ToolCalls[i]); ok {
				spoke[m.ToolCalls[i].ID] = true
			}
		}
		if m.Role == llm.Tool {
			var left []llm.ToolReturn
			for _, r := range m.Returns() {
				if !spoke[r.ToolCallID] {
					left = append(left, r)
				}
			}
			if len(left) == 0 {
				continue
			}
			m.ToolReturns = left
		}
		out = append(out, m)
	}
	return out
}

// returnText is the result of a call as a text; wrapped says that it came in the
// form in which a model is told of it.
func returnText(r *llm.ToolReturn) (text string, wrapped bool) {
	message, _, wrapped := llm.UnpackResult(r.Text)
	if !wrapped {
		return r.PlainText(), false
	}
	if json.Unmarshal(message, &text) == nil {
		return text, true
	}
	var b bytes.Buffer
	if json.Compact(&b, message) == nil {
		return b.String(), true
	}
	return string(message), true
}

// ownOTID is the index of the otid of a message that has one part and whose
// sender gave it none; those of agents count from 0.
const ownOTID = 127

// otidOf names the n-th part of a message: the id's UUID with n in its lowest
// seven bits.
func otidOf(id string, n int) string {
	parsed, ok := chat.ParseID("", id[strings.IndexByte(id, '-')+1:])
	if !ok || n < 0 {
		return id
	}
	parsed[15] = parsed[15]&0x80 | byte(min(n, 127))
	return parsed.UUID()
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
