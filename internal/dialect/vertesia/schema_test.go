package vertesia

import (
	"bytes"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var compactSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("../../../docs/schemas/vertesia/compact_message.json")
})

// checkSchema validates a message with the published schema.
func checkSchema(t testing.TB, b []byte) {
	t.Helper()
	schema, err := compactSchema()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s\n%v", b, err)
	}
}

func TestSchemaRefusesOtherMessages(t *testing.T) {
	schema, err := compactSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{"t":3,"m":"x"}`, `{"t":15,"ts":1}`, `{"t":12,"m":"x","ts":1}`, `{"t":11,"w":"w1","ts":1}`, `{"t":3,"ts":1,"more":1}`, `{"t":3,"w":"main","ts":1}`} {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(bad)))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(v) == nil {
			t.Errorf("%s fits", bad)
		}
	}
}
