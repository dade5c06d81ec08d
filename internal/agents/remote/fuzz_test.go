package remote

import (
	"encoding/json"
	"testing"
)

// FuzzPatch: any patch gives JSON or an error.
func FuzzPatch(f *testing.F) {
	f.Add(`{"a":[1,2]}`, `[{"op":"add","path":"/a/1","value":3},{"op":"move","from":"/a/0","path":"/b"},{"op":"test","path":"/b","value":1}]`)
	f.Add(`[]`, `[{"op":"add","path":"/-","value":{}},{"op":"copy","from":"/0","path":"/1"},{"op":"remove","path":"/0"}]`)
	f.Add(`{}`, `[{"op":"replace","path":"","value":null},{"op":"add","path":"/~1~0","value":1}]`)
	f.Add(`{"a":[1,1]}`, `[{"op":"add","path":"0/0","value":0},{"op":"move","from":"00/0","path":"/0"},{"op":"test","path":""}]`) // the library panics
	f.Fuzz(func(t *testing.T, doc, ops string) {
		state, err := compactJSON([]byte(doc))
		if err != nil {
			return
		}
		if state, err = patchState(state, []byte(ops)); err == nil && !json.Valid(state) {
			t.Fatalf("%s gave %s", ops, state)
		}
	})
}

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
	f.Add(`{"type":"object","required":["x"],"properties":{"x":{}}}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		if _, err := json.Marshal(answerPayload(parseAnswerSchema(json.RawMessage(schema)).encode(), text)); err != nil {
			t.Fatal(err)
		}
	})
}
