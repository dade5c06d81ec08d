package llm

import (
	"testing"
)

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

func TestObject(t *testing.T) {
	for in, want := range map[string]string{
		"": "{}", "null": "{}", ` {"a": 1} `: `{"a":1}`, `{"a":"b`: `{"a":"b"}`, `{"a":[1,2`: `{"a":[1,2]}`, `{"a":1,"b`: `{"a":1}`, `{"a":1,`: `{"a":1}`,
		`{"a":tr`: `{}`, `{"a":"x\`: `{"a":"x"}`, `"{\"a\":1}"`: `{"a":1}`, `[1]`: `{"_malformed_tool_arguments":"[1]"}`, `oops`: `{"_malformed_tool_arguments":"oops"}`,
		`{"n":12345678901234567890}`: `{"n":12345678901234567890}`, `{"a":{"b":"c, d`: `{"a":{"b":"c, d"}}`,
	} {
		if got := string(Object(in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
