package convert

import (
	"encoding/json"
	"strings"

	"github.com/parley-hq/parley/llm"
)

// Begins stands for the person at the beginning of a conversation that an agent
// opens: Anthropic and Gemini want the person to speak first. It is also all that
// is said where nothing is, because every provider refuses a request without.
const Begins = "(The conversation begins.)"

// Request is a request with what every conversion asks of it.
type Request struct{ llm.Request }

// SameModel reports whether reasoning of m may be given to the model: a foreign
// one cannot read it, and some refuse it.
func (r *Request) SameModel(m *llm.Message) bool { return m.Model != "" && m.Model == r.Model }

// Split takes the system messages at the beginning apart from the rest.
func Split(messages []llm.Message) (system []string, rest []llm.Message) {
	for i := range messages {
		if messages[i].Role != llm.System {
			return system, messages[i:]
		}
		if text := messages[i].PlainText(); strings.TrimSpace(text) != "" {
			system = append(system, text)
		}
	}
	return system, nil
}

// Event is how something that nobody in the conversation said is told to
// providers that know only two sides.
func Event(text string) string { return "<event>SYSTEM ALERT: " + text + "</event>" }

// Outcome is a tool's answer as text for providers that cannot mark an error.
func (r *Request) Outcome(t *llm.ToolReturn) string {
	text := t.PlainText()
	if n := CountImages(t.Parts); n > 0 {
		text = strings.TrimSpace(text + " " + omitted(n))
	}
	if _, _, wrapped := llm.UnpackResult(text); t.Status == llm.Failure && !wrapped && !strings.HasPrefix(text, "Error") {
		text = "Error: " + text
	}
	return r.Cut(text)
}

// Parameters is a tool's schema as a map.
func Parameters(t *llm.ToolSpec) map[string]any {
	var schema map[string]any
	if len(t.Parameters) > 0 && json.Unmarshal(t.Parameters, &schema) == nil && schema != nil {
		if _, ok := schema["type"]; !ok {
			schema["type"] = "object"
		}
		return schema
	}
	return map[string]any{"type": "object", "properties": map[string]any{}}
}

// Blank reports whether a text says nothing.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }

// Either is the first of two texts that is not empty.
func Either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
