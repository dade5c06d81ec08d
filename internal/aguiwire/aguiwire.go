// Package aguiwire has the types of AG-UI that both sides use: the dialect agui is the server of pages, and the agent kind for
// AG-UI is the client of agents. Prompts are interrupts in AG-UI: the dialect writes them, the agent kind reads them. Optional fields are left out when they are empty, because clients refuse null.
package aguiwire

import (
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Input is the body of a request for a run.
type Input struct {
	ThreadID string            `json:"threadId"`
	RunID    string            `json:"runId"`
	Version  string            `json:"protocolVersion,omitempty"` // only clients of 1.0 send it
	Parent   string            `json:"parentRunId,omitempty"`
	State    json.RawMessage   `json:"state,omitempty"`
	Messages []Message         `json:"messages"`
	Tools    []chat.ClientTool `json:"tools"`
	Context  []ContextItem     `json:"context"`
	Props    json.RawMessage   `json:"forwardedProps,omitempty"`
	Resume   []Resume          `json:"resume,omitempty"`
}

// Message is a message of any role.
type Message struct {
	ID       string          `json:"id"`
	Role     string          `json:"role"`
	Content  json.RawMessage `json:"content,omitempty"` // a text, or parts
	Calls    []Call          `json:"toolCalls,omitempty"`
	CallID   string          `json:"toolCallId,omitempty"`
	Error    string          `json:"error,omitempty"`
	Subagent string          `json:"subagentRunId,omitempty"`
}

// Call is a tool call of a message.
type Call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// NewCall returns a call.
func NewCall(id, name string, params json.RawMessage) Call {
	c := Call{ID: id, Type: "function"}
	c.Function.Name, c.Function.Arguments = name, string(Arguments(params))
	return c
}

// Arguments are the parameters of a call, an empty object when it has none.
func Arguments(params json.RawMessage) json.RawMessage {
	if params = json.NotNull(params); params == nil {
		return json.RawMessage("{}")
	}
	return params
}

// Part is a piece of a message's content.
type Part struct {
	Type   string  `json:"type"` // text, image, audio, video, document; binary before 1.0
	Text   string  `json:"text,omitempty"`
	Source *Source `json:"source,omitempty"`

	MediaType string `json:"mimeType,omitempty"` // these are of binary
	URL       string `json:"url,omitempty"`
	Data      string `json:"data,omitempty"`
	Name      string `json:"filename,omitempty"`
}

// Text returns the text of a content: a text, or the texts of its parts in lines.
func Text(content json.RawMessage) string {
	var parts []Part
	if json.Unmarshal(content, &parts) != nil {
		return json.Text(content)
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Source is where the data of a part is.
type Source struct {
	Type      string `json:"type"` // data, url, file
	Value     string `json:"value"`
	MediaType string `json:"mimeType,omitempty"`
}

// NewSource returns the source for an address, which may be a data: URL.
func NewSource(address, mediaType string) *Source {
	if rest, ok := strings.CutPrefix(address, "data:"); ok {
		if media, data, ok := strings.Cut(rest, ";base64,"); ok {
			return &Source{Type: "data", Value: data, MediaType: media}
		}
	}
	return &Source{Type: "url", Value: address, MediaType: mediaType}
}

// ContextItem is something that the page tells the agent.
type ContextItem struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// Resume is the answer to an interrupt.
type Resume struct {
	ID      string          `json:"interruptId"`
	Status  string          `json:"status"` // resolved, cancelled
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Stored is what the context of a user message from a page has under "agui". The dialect writes it; the agent kind reads State and Calls.
type Stored struct {
	Run       string          `json:"run_id,omitempty"`
	MessageID string          `json:"message_id,omitempty"` // where it is not the client_id
	State     json.RawMessage `json:"state,omitempty"`
	Props     json.RawMessage `json:"forwarded_props,omitempty"`
	Imported  bool            `json:"imported,omitempty"` // from the history of a page; no turn answers it
	Calls     int             `json:"calls,omitempty"`    // see CallsHeader
}

// CallsHeader is how many agents behind AG-UI have called one another to answer a message. A server refuses more than MaxCalls: agents
// that call one another in a circle would do so forever.
const (
	CallsHeader = "Parley-Calls"
	MaxCalls    = 8
)

// Own reads what the dialect has written to a context or to metadata, under "agui". Other clients may store anything there.
func Own[T any](raw json.RawMessage) T {
	var m struct {
		Own T `json:"agui"`
	}
	if json.Unmarshal(raw, &m) != nil {
		m.Own = *new(T)
	}
	return m.Own
}

// Outcome says why a run, or a subagent's part of it, ended.
type Outcome struct {
	Type       string      `json:"type"` // success, interrupt, cancelled, suspended
	Pending    []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts []Interrupt `json:"interrupts,omitempty"`
	Waits      []string    `json:"interruptIds,omitempty"`
}

// Tokens are the tokens of one model.
type Tokens struct {
	Model     string `json:"model,omitempty"`
	Input     int64  `json:"inputTokens"`
	Output    int64  `json:"outputTokens"`
	Total     int64  `json:"totalTokens"`
	Reasoning int64  `json:"reasoningTokens,omitempty"`
	Cached    int64  `json:"cachedInputTokens,omitempty"`
	Written   int64  `json:"cacheWriteInputTokens,omitempty"`
}

// newTokens returns the tokens of a report. AG-UI has no negative counts.
func newTokens(u chat.AgentUsage) Tokens {
	t := Tokens{
		Model: u.Model, Input: max(0, u.InputTokens), Output: max(0, u.OutputTokens),
		Reasoning: max(0, u.ReasoningTokens), Cached: max(0, u.CacheReadTokens), Written: max(0, u.CacheCreationTokens),
	}
	t.Total = t.Input + t.Output
	return t
}

// AddTokens adds the tokens of a report to those of the same model.
func AddTokens(all []Tokens, u chat.AgentUsage) []Tokens {
	i := slices.IndexFunc(all, func(t Tokens) bool { return t.Model == u.Model })
	if i < 0 {
		return append(all, newTokens(u))
	}
	u.Usage = u.Plus(all[i].Usage().Usage)
	all[i] = newTokens(u)
	return all
}

// Usage returns the tokens as a report.
func (t *Tokens) Usage() chat.AgentUsage {
	return chat.AgentUsage{Model: t.Model, Usage: chat.Usage{
		InputTokens: t.Input, OutputTokens: t.Output, ReasoningTokens: t.Reasoning, CacheReadTokens: t.Cached, CacheCreationTokens: t.Written,
	}}
}
