package convert

import (
	"strings"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// Begins stands for the person at the beginning of a conversation that an agent
// opens: Anthropic and Gemini want the person to speak first. It is also all that
// is said where nothing is, because every provider refuses a request without.
const Begins = "(The conversation begins.)"

// GoesOn stands for the person where a conversation ends with the agent's own words
// and it is to say more.
const GoesOn = "(Go on from where you stopped.)"

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

// Parameters is a tool's schema as a map. It is of an object whose properties are
// named, be there none, and says no alternatives at its top: OpenAI and Anthropic
// refuse every request that offers a tool with another one. What the alternatives
// name is among the properties; the tool itself sees to the rest.
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

// Blank reports whether a text says nothing.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }

// Either is the first of two texts that is not empty.
func Either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
