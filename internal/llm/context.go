package llm

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Estimated tokens of items other than text, rounded up.
const (
	messageTokens = 4
	callTokens    = 8
	imageTokens   = 1600
	lowImage      = 100
)

// TextTokens estimates the tokens of a text: a quarter of a token per ASCII byte, one
// per other character.
func TextTokens(s string) int {
	ascii := 0
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			ascii++
		}
	}
	wide := 0
	if ascii < len(s) {
		wide = utf8.RuneCountInString(s) - ascii
	}
	return (ascii+3)/4 + wide
}

// Tokens estimates the tokens of a message, independent of the provider.
func (m *Message) Tokens() int {
	n := messageTokens + TextTokens(m.Name)
	if m.Role != Tool || len(m.ToolReturns) == 0 {
		n += partTokens(m.Content)
	}
	for i := range m.ToolCalls {
		n += callTokens + TextTokens(m.ToolCalls[i].Name) + TextTokens(m.ToolCalls[i].Arguments)
	}
	for i := range m.ToolReturns {
		n += callTokens + TextTokens(m.ToolReturns[i].Text) + partTokens(m.ToolReturns[i].Parts)
	}
	for _, v := range m.Approvals {
		switch v := v.(type) {
		case *ToolReturn:
			n += callTokens + TextTokens(v.Text) + partTokens(v.Parts)
		case *ToolApproval:
			n += callTokens + TextTokens(v.Reason)
		}
	}
	return n
}

func partTokens(parts []Part) (n int) {
	for _, p := range parts {
		switch p := p.(type) {
		case *Text:
			n += TextTokens(p.Text)
		case *Image:
			if p.Source.Detail == "low" {
				n += lowImage
			} else {
				n += imageTokens
			}
		case *Reasoning:
			n += TextTokens(p.Text) + len(p.Signature)/8
		case *RedactedReasoning:
			n += len(p.Data) / 8
		case *SummarizedReasoning:
			n += TextTokens(p.PlainText()) + len(p.Encrypted)/8
		}
	}
	return n
}

// Tokens estimates the tokens of messages.
func Tokens(messages []Message) (n int) {
	for i := range messages {
		n += messages[i].Tokens()
	}
	return n
}

// Fit returns the part of a conversation that fits a number of tokens: the system
// messages at its beginning, a summary right after them, and the newest messages. It
// never separates a call from its result. It omits whole exchanges first. If the last
// exchange alone is too long, it keeps the user message and omits the oldest steps. If
// the last step is still too long, it shortens the longest texts, with a note in each.
// dropped are the omitted messages. Fit does not change its argument.
func Fit(messages []Message, tokens int) (fitted, dropped []Message, err error) {
	if Tokens(messages) <= tokens {
		return messages, nil, nil
	}
	head, rest := leading(messages)
	n := Tokens(head)
	budget := tokens - n
	if budget < messageTokens*4 {
		return nil, nil, chat.Errorf(chat.TooLarge, "the instructions alone have about %d tokens, and the model's window has room for %d; shorten them or choose a larger model", n, tokens).
			With("tokens", n).With("window", tokens)
	}
	var summary []Message
	if len(rest) > 0 && rest[0].Role == Summary {
		summary, rest = rest[:1], rest[1:]
	}
	kept, dropped := newest(rest, budget-Tokens(summary))
	kept = slices.Concat(summary, kept)
	if Tokens(kept) > budget {
		kept = shorten(kept, budget)
	}
	return slices.Concat(head, kept), dropped, nil
}

func leading(messages []Message) (system, rest []Message) {
	i := 0
	for i < len(messages) && messages[i].Role == System {
		i++
	}
	return messages[:i], messages[i:]
}

// newest omits the oldest messages until the rest fits. It always keeps the last step.
func newest(messages []Message, budget int) (kept, dropped []Message) {
	whole := cutPoints(messages)
	size := make([]int, len(messages)+1) // tokens of the messages from that index on
	for i := len(messages) - 1; i >= 0; i-- {
		size[i] = size[i+1] + messages[i].Tokens()
	}
	last := 0
	for i := range messages { // try to cut before an exchange
		if whole[i] && messages[i].Role == User {
			if last = i; size[i] <= budget {
				return messages[i:], messages[:i]
			}
		}
	}
	// Cut the last exchange before a step, and keep the user message.
	var asked []Message
	if last < len(messages) && messages[last].Role == User {
		asked = messages[last : last+1]
	}
	from := last + len(asked)
	best := from
	for i := from; i < len(messages); i++ {
		if whole[i] {
			if best = i; Tokens(asked)+size[i] <= budget {
				break
			}
		}
	}
	return slices.Concat(asked, messages[best:]), slices.Concat(messages[:last], messages[from:best])
}

// cutPoints returns for each message whether the conversation can be cut before it without
// separating a call from its result, or an approval request from its response.
func cutPoints(messages []Message) []bool {
	answers := map[string][]int{} // call id → indexes of the messages with its result
	for i := range messages {
		switch m := &messages[i]; {
		case m.Role == Tool:
			for _, r := range m.ToolReturns {
				answers[r.ToolCallID] = append(answers[r.ToolCallID], i)
			}
		case m.IsApprovalResponse():
			for _, v := range m.Approvals {
				answers[v.CallID()] = append(answers[v.CallID()], i)
			}
		}
	}
	out := make([]bool, len(messages))
	reach := -1 // index of the last result of the calls so far
	for i := range messages {
		m := &messages[i]
		out[i] = reach < i && m.Role != Tool && !m.IsApprovalResponse()
		if m.Role != Assistant && m.Role != Approval {
			continue
		}
		for _, c := range m.ToolCalls {
			list := answers[c.ID]
			if n, _ := slices.BinarySearch(list, i); n < len(list) {
				reach = max(reach, list[n])
				if n+1 < len(list) && messages[list[n]].Role == Approval {
					reach = max(reach, list[n+1])
				}
			}
		}
	}
	return out
}

// shorten cuts the longest texts until the messages fit or the minimum length is
// reached.
func shorten(messages []Message, budget int) []Message {
	for limit := 1 << 20; ; limit /= 2 {
		out := make([]Message, len(messages))
		for i := range messages {
			out[i] = shortened(messages[i], limit)
		}
		if limit <= 16 || Tokens(out) <= budget {
			return out
		}
	}
}

// shortened returns a message whose texts have at most limit characters. With a small
// limit it also removes images and reasoning.
func shortened(m Message, limit int) Message {
	r := Request{MaxText: limit}
	cut := func(parts []Part) []Part {
		if parts == nil {
			return nil
		}
		out := []Part{}
		for _, p := range parts {
			switch p := p.(type) {
			case *Text:
				c := *p
				c.Text = r.Cut(p.Text)
				out = append(out, &c)
			case *Image:
				if limit > 4096 {
					out = append(out, p)
				} else {
					out = append(out, &Text{Text: MissingImage(p.Source)})
				}
			case *Reasoning, *RedactedReasoning, *SummarizedReasoning:
				if limit > 4096 {
					out = append(out, p)
				}
			default:
				out = append(out, p)
			}
		}
		return out
	}
	m.Content = cut(m.Content)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		if c := &m.ToolCalls[i]; utf8.RuneCountInString(c.Arguments) > limit {
			b, _ := json.Marshal(map[string]string{"_truncated_tool_arguments": r.Cut(c.Arguments)})
			c.Arguments = string(b)
		}
	}
	m.ToolReturns = slices.Clone(m.ToolReturns)
	for i := range m.ToolReturns {
		t := &m.ToolReturns[i]
		t.Text, t.Parts = r.Cut(t.Text), cut(t.Parts)
	}
	return m
}

// Compaction describes how a summary was made.
type Compaction struct {
	Trigger        string `json:"trigger"`
	ContextWindow  int    `json:"context_window"`
	MessagesBefore int    `json:"messages_count_before"`
	MessagesAfter  int    `json:"messages_count_after"`
	TokensBefore   int    `json:"context_tokens_before,omitempty"`
	TokensAfter    int    `json:"context_tokens_after,omitempty"`
}

// NewSummary returns a message that replaces the omitted part of a conversation. Place
// it after the system messages and before the remaining messages.
func NewSummary(text string, stats *Compaction, at time.Time) Message {
	packed := PackSummary(text, at)
	if stats != nil {
		if b, err := json.MarshalIndent(stats, "  ", "  "); err == nil {
			packed = strings.TrimSuffix(packed, "\n}") + ",\n  \"compaction_stats\": " + string(b) + "\n}"
		}
	}
	return Message{Role: Summary, Content: Texts(packed), CreatedAt: at}
}

// Plain returns a conversation as text, as input for a model that summarises it.
func Plain(messages []Message) string {
	var b strings.Builder
	for i := range messages {
		m := &messages[i]
		line := func(who, text string) {
			if strings.TrimSpace(text) != "" {
				b.WriteString(who + ": " + text + "\n")
			}
		}
		switch m.Role {
		case Summary:
			line("summary so far", UnpackSummary(m.PlainText()))
		case Tool:
			for _, r := range m.ToolReturns {
				line("tool", r.PlainText())
			}
		default:
			line(string(m.Role), m.PlainText())
		}
		for _, c := range m.ToolCalls {
			line("calls "+c.Name, c.Arguments)
		}
	}
	return b.String()
}
