// Package aguiwire has the types of AG-UI that both sides use: the dialect agui is the server of pages, and the agent kind for
// AG-UI is the client of agents. Optional fields are left out when they are empty, because clients refuse null.
package aguiwire

import (
	"strings"

	"github.com/parley-hq/parley/internal/json"
)

// Input is the body of a request for a run.
type Input struct {
	ThreadID string          `json:"threadId"`
	RunID    string          `json:"runId"`
	Version  string          `json:"protocolVersion,omitempty"` // only clients of 1.0 send it
	Parent   string          `json:"parentRunId,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	Messages []Message       `json:"messages"`
	Tools    []Tool          `json:"tools"`
	Context  []ContextItem   `json:"context"`
	Props    json.RawMessage `json:"forwardedProps,omitempty"`
	Resume   []Resume        `json:"resume,omitempty"`
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

// NewCall returns a call. Calls without parameters have an empty object.
func NewCall(id, name string, params json.RawMessage) Call {
	c := Call{ID: id, Type: "function"}
	c.Function.Name, c.Function.Arguments = name, string(params)
	if len(params) == 0 || string(params) == "null" {
		c.Function.Arguments = "{}"
	}
	return c
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

// Tool is a tool that the client runs.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
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

// Outcome says why a run, or a subagent's part of it, ended.
type Outcome struct {
	Type       string      `json:"type"` // success, interrupt, cancelled, suspended
	Pending    []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts []Interrupt `json:"interrupts,omitempty"`
	Waits      []string    `json:"interruptIds,omitempty"`
}

// Interrupt is a question that the next run answers.
type Interrupt struct {
	ID       string          `json:"id"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message,omitempty"`
	CallID   string          `json:"toolCallId,omitempty"`
	Schema   json.RawMessage `json:"responseSchema,omitempty"`
	Expires  string          `json:"expiresAt,omitempty"`
	Subagent string          `json:"subagentRunId,omitempty"`
	Metadata map[string]any  `json:"metadata,omitempty"`
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
