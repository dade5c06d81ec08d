package llm

import (
	"testing"
)

// Any arguments become an object.
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

func TestObject(t *testing.T) {
	for in, want := range map[string]string{
		"": "{}", "null": "{}", ` {"a": 1} `: `{"a":1}`, `"{\"a\":1}"`: `{"a":1}`, `[1]`: `{"_malformed_tool_arguments":"[1]"}`, `oops`: `{"_malformed_tool_arguments":"oops"}`,
		`{"n":12345678901234567890}`: `{"n":12345678901234567890}`, `{"a":"b`: `{"_malformed_tool_arguments":"{\"a\":\"b"}`,
	} {
		if got := string(Object(in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Arguments of a new call that were cut off are not completed.
func TestSettle(t *testing.T) {
	for in, want := range map[string]string{
		"": "{}", ` {"a":1} `: `{"a":1}`, "{\"a\":\"one\ntwo\"}": `{"a":"one\u000atwo"}`,
		`{"path":"x","content":"half of`: `{"path":"x","content":"half of`, `{"a":1,`: `{"a":1,`, "oops": "oops",
	} {
		if got := Settle(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
