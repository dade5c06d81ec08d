package llm

import (
	"testing"
)

// Whatever a request says, reading it ends, and what was read can be sent to
// every provider.
func FuzzReadRequests(f *testing.F) {
	f.Add([]byte(`[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]`))
	f.Add([]byte(`[{"role":"user","content":[{"type":"input_text","text":"t"}]},{"type":"reasoning","id":"r","summary":[{"text":"s"}],"encrypted_content":"e"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]`))
	f.Add([]byte(`[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":[{"type":"text","text":"x"}]}]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var lists [][]Message
		if ms, err := ReadOpenAIChat(b, "m"); err == nil {
			lists = append(lists, ms)
		}
		if ms, err := ReadOpenAIResponses(b, "m"); err == nil {
			lists = append(lists, ms)
		}
		if ms, err := ReadAnthropic(nil, b, "m"); err == nil {
			lists = append(lists, ms)
		}
		for _, ms := range lists {
			for name, check := range checkers {
				if err := check(Request{Model: "m", Messages: ms}); err != nil {
					t.Errorf("%s: %v\nfrom %s", name, err, dump(ms))
				}
			}
		}
	})
}

// Broken arguments always become an object, and what is whole stays as it is.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{"a":"b`, `{"a":[1,{"b":`, `"{}"`, `{"a":1}`, `{{{{`, `{"\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if out, ok := asObject(string(Object(s))); !ok {
			t.Errorf("%q became %s", s, out)
		}
	})
}
