package httpagent

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// FuzzSteps: any Markdown of a step gives JSON.
func FuzzSteps(f *testing.F) {
	f.Add("**Input:**\n```json\n{}\n```\n\n**Output:**\n```\nx\n```")
	f.Add("**Function Output:**")
	f.Add("```")
	f.Fuzz(func(t *testing.T, payload string) {
		in, out, _ := stepParts(payload)
		for _, v := range []json.RawMessage{asJSON(in), asJSON(out), asObject(json.RawMessage(in))} {
			if len(v) > 0 && !json.Valid(v) {
				t.Fatalf("%q gave %q", payload, v)
			}
		}
	})
}

// FuzzAnswerSchema: with any schema the answers are JSON.
func FuzzAnswerSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`, "yes")
	f.Add(`{"enum":["a","b"]}`, "a")
	f.Add(`{"type":"array","items":{"enum":["a","b"]},"minItems":1}`, "a")
	f.Add(`{"type":"object","required":["x"],"properties":{"x":{}}}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		if _, err := json.Marshal(answerPayload(parseAnswerSchema(json.RawMessage(schema)).encode(), chat.UserInputResponse{Text: text})); err != nil {
			t.Fatal(err)
		}
	})
}
