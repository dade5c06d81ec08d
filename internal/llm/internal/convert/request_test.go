package convert

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
)

// One tool with a schema that a provider refuses would make every request fail.
func TestParametersAreOfAnObject(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, `{"properties":{},"type":"object"}`},
		{`null`, `{"properties":{},"type":"object"}`},
		{`no JSON`, `{"properties":{},"type":"object"}`},
		{`{"type":"object"}`, `{"properties":{},"type":"object"}`},
		{`{"type":["object","null"],"properties":null}`, `{"properties":{},"type":"object"}`},
		{`{"properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`,
			`{"additionalProperties":false,"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`},
		{`{"properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"properties":{"a":{},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}}}],"not":{"required":["c"]}}`,
			`{"properties":{"a":{"type":"string"},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}},"type":"object"}`},
	} {
		got, err := json.Marshal(Parameters(&llm.ToolSpec{Parameters: json.RawMessage(c.in)}))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.in, got, c.want, err)
		}
	}
}
