package nemo

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas are the published ones, by the name of their file.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	files, err := filepath.Glob("../../../docs/schemas/nemo/*.json")
	if err != nil || len(files) == 0 {
		panic("the schemas are not there")
	}
	all := map[string]*jsonschema.Schema{}
	c := jsonschema.NewCompiler()
	for _, f := range files {
		s, err := c.Compile(f)
		if err != nil {
			panic(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".json")] = s
	}
	return all
})

// check validates JSON against a schema.
func check(name string, b []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return schemas()[name].Validate(v)
}

// checkFrame holds every frame that a test sees against the schema of the way
// it was spoken in.
func checkFrame(t testing.TB, schema string, b []byte) {
	t.Helper()
	name := schema
	if name == "" || name == "nemo" {
		var f struct{ Type string }
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		if name = f.Type; schemas()[name] == nil {
			t.Fatalf("no schema for %s", b)
		}
	}
	if err := check(name, b); err != nil {
		t.Errorf("%s\n%v", b, err)
	}
}

// The schemas accept what the documents show and the UI sends.
func TestClientSchemas(t *testing.T) {
	for name, frames := range map[string][]string{
		typeUser:   {userMessage("c", "m", "chat", "hi"), `{"type":"user_message","schema_type":"generate","content":{"messages":[{"role":"user","content":"hi"}]},"custom":1}`},
		typeAnswer: {`{"type":"user_interaction_message","id":"a","thread_id":"default","parent_id":"m","conversation_id":"c","content":{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}}`},
		typeAuth:   {`{"type":"auth_message","payload":{"method":"jwt","token":"a.b.c"}}`, `{"type":"auth_message","payload":{"method":"basic","username":"u","password":"p"}}`},
	} {
		for _, f := range frames {
			if err := check(name, []byte(f)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
	for name, f := range map[string]string{
		typeUser:     `{"type":"user_message","content":{"messages":[]}}`,
		typeAuth:     `{"type":"auth_message","payload":{"method":"magic"}}`,
		typeResponse: `{"type":"system_response_message"}`,
	} {
		if check(name, []byte(f)) == nil {
			t.Errorf("%s fits", f)
		}
	}
}
