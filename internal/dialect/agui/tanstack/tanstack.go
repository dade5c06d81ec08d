// Package tanstack has the forms that only the client of TanStack AI uses: the messages that it loads with a thread, and
// interrupts that it can answer.
package tanstack

import (
	"time"

	"github.com/parley-hq/parley/internal/aguiwire"
)

// Thread is what the client loads when a page opens.
type Thread struct {
	Messages   []Message      `json:"messages"`
	Active     any            `json:"activeRun"`      // {runId} or null
	Interrupts any            `json:"interrupts"`     // {runId, pending} or null
	Page       map[string]any `json:"page,omitempty"` // {truncated, cursor} when there are older messages
}

// Message is a message as pages keep it.
type Message struct {
	ID      string    `json:"id"`
	Role    string    `json:"role"`
	Parts   []Part    `json:"parts"`
	Created time.Time `json:"createdAt"`
}

// Part is a part of a message.
type Part struct {
	Type      string `json:"type"` // text, thinking, tool-call, tool-result
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	State     string `json:"state,omitempty"`
	CallID    string `json:"toolCallId,omitempty"`
}

// Add adds a message of AG-UI. What the agent says and does between two messages of people is one message of the page.
func (t *Thread) Add(m *aguiwire.Message, at time.Time) {
	content := aguiwire.Text(m.Content)
	p := Part{Type: "text", Content: content}
	switch {
	case m.Role == "user":
		t.Messages = append(t.Messages, Message{ID: m.ID, Role: "user", Parts: []Part{p}, Created: at})
		return
	case m.Role == "reasoning":
		p.Type = "thinking"
	case m.Role == "tool":
		p = Part{Type: "tool-result", CallID: m.CallID, Content: content, State: "complete"}
		if m.Error != "" {
			p.State = "error"
		}
	case len(m.Calls) > 0:
		c := &m.Calls[0]
		p = Part{Type: "tool-call", ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments, State: "input-complete"}
	}
	if n := len(t.Messages); n == 0 || t.Messages[n-1].Role != "assistant" {
		t.Messages = append(t.Messages, Message{ID: m.ID, Role: "assistant", Created: at})
	}
	last := &t.Messages[len(t.Messages)-1]
	last.Parts = append(last.Parts, p)
}

// Bind makes an interrupt of a run one that the client can answer: it needs to know that the interrupt is generic, and answers only
// interrupts without a schema. The schema stays readable in the metadata.
func Bind(i *aguiwire.Interrupt, runID string) {
	if about, ok := i.Metadata[aguiwire.AboutKey].(map[string]any); ok {
		about["responseSchema"] = i.Schema
	}
	i.Schema = nil
	i.Metadata["tanstack:interruptBinding"] = map[string]any{"v": 1, "kind": "generic", "interruptId": i.ID, "interruptedRunId": runID, "generation": 1}
}
