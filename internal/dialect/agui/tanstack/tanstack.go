// Package tanstack has the forms that only the client of TanStack AI uses: the messages that it loads with a thread, and
// interrupts that it can answer.
package tanstack

import (
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
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
	Type      string           `json:"type"` // text, thinking, tool-call, tool-result, or that of a file
	Content   *string          `json:"content,omitempty"`
	Source    *aguiwire.Source `json:"source,omitempty"` // of a file
	ID        string           `json:"id,omitempty"`
	Name      string           `json:"name,omitempty"`
	Arguments string           `json:"arguments,omitempty"`
	Input     json.RawMessage  `json:"input,omitempty"`
	Output    json.RawMessage  `json:"output,omitempty"`
	State     string           `json:"state,omitempty"`
	CallID    string           `json:"toolCallId,omitempty"`
	Error     string           `json:"error,omitempty"`
}

// Failed is the metadata of a result that is an error.
var Failed = map[string]string{"state": "output-error"}

// Add adds a message of AG-UI. What the agent says and does between two messages of people is one message of the page.
func (t *Thread) Add(m *aguiwire.Message, at time.Time) {
	if m.Role == "user" {
		t.Messages = append(t.Messages, Message{ID: m.ID, Role: "user", Parts: userParts(m.Content), Created: at})
		return
	}
	content := aguiwire.Text(m.Content)
	p := Part{Type: "text", Content: &content}
	switch {
	case m.Role == "reasoning":
		p.Type = "thinking"
	case m.Role == "tool":
		p = Part{Type: "tool-result", CallID: m.CallID, Content: &content, State: "complete", Error: m.Error}
		if m.Error != "" {
			p.State = "error"
		}
		if t.result(p) {
			return
		}
	case len(m.Calls) > 0:
		c := &m.Calls[0]
		p = Part{Type: "tool-call", ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments, Input: valueOf(c.Function.Arguments), State: "input-complete"}
	}
	if n := len(t.Messages); n == 0 || t.Messages[n-1].Role != "assistant" {
		t.Messages = append(t.Messages, Message{ID: m.ID, Role: "assistant", Created: at})
	}
	last := &t.Messages[len(t.Messages)-1]
	last.Parts = append(last.Parts, p)
}

// result adds a result to the message that has its call, and to the call, from which the client reads it.
func (t *Thread) result(p Part) bool {
	for i := len(t.Messages) - 1; i >= 0; i-- {
		m := &t.Messages[i]
		at := slices.IndexFunc(m.Parts, func(c Part) bool { return c.Type == "tool-call" && c.ID == p.CallID })
		if at < 0 {
			continue
		}
		call := &m.Parts[at]
		if call.State, call.Output = p.State, valueOf(*p.Content); call.Output == nil {
			call.Output = json.AppendString(nil, *p.Content)
		}
		m.Parts = append(m.Parts, p)
		return true
	}
	return false
}

// valueOf is a JSON value, nil when the text is none.
func valueOf(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// userParts are the parts of a message of a person.
func userParts(content json.RawMessage) (parts []Part) {
	var all []aguiwire.Part
	if json.Unmarshal(content, &all) != nil {
		text := aguiwire.Text(content)
		return []Part{{Type: "text", Content: &text}}
	}
	for i := range all {
		if p := &all[i]; p.Type == "text" {
			parts = append(parts, Part{Type: "text", Content: &p.Text})
		} else {
			parts = append(parts, Part{Type: p.Type, Source: p.Source})
		}
	}
	return parts
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
