package convert

import (
	"strings"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// Begins is the user message that is inserted when a conversation begins with the
// agent, because Anthropic and Gemini require a user message first. It is also the
// only message of an empty conversation, because every provider refuses a request
// without messages.
const Begins = "(The conversation begins.)"

// GoesOn is the user message that is appended when a conversation ends with the
// agent's message and the agent is to continue.
const GoesOn = "(Go on from where you stopped.)"

// Request adds methods that every conversion needs.
type Request struct{ llm.Request }

// SameModel reports whether reasoning of m may be sent to the model. Other models
// cannot use it, and some refuse it.
func (r *Request) SameModel(m *llm.Message) bool { return m.Model != "" && m.Model == r.Model }

// Split separates the system messages at the beginning from the rest.
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

// Event formats a system message for providers that only have user and model messages
// in a conversation.
func Event(text string) string { return "<event>SYSTEM ALERT: " + text + "</event>" }

// Outcome returns a tool's result as text, for providers that cannot mark a result as
// an error.
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

// Parameters returns a tool's schema as a map. The schema is always of type object,
// has properties (possibly none) and no alternatives at its top level: OpenAI and
// Anthropic refuse every request that offers a tool with another schema. The
// properties of the alternatives are merged into the properties; the tool validates
// the rest.
func Parameters(t *llm.ToolSpec) map[string]any {
	var schema map[string]any
	if json.Unmarshal(t.Parameters, &schema) != nil || schema == nil {
		schema = map[string]any{}
	}
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[key].([]any)
		for _, v := range list {
			one, _ := v.(map[string]any)
			more, _ := one["properties"].(map[string]any)
			for name, p := range more {
				if _, named := properties[name]; !named {
					properties[name] = p
				}
			}
		}
		delete(schema, key)
	}
	delete(schema, "not")
	delete(schema, "enum")
	schema["type"], schema["properties"] = "object", properties
	return schema
}

// Blank reports whether a text is empty except for white space.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }
