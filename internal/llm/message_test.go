package llm

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// schema is docs/schemas/llm/message.json.
func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	b, err := os.ReadFile("../../docs/schemas/llm/message.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("message.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("message.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(t testing.TB, s *jsonschema.Schema, b []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// Errors in the content of a user message name the path of the value.
func TestContentErrorsNameThePath(t *testing.T) {
	for _, c := range []struct{ in, path string }{
		{`"x"`, "content"},
		{`null`, "content"},
		{`[1]`, "content[0]"},
		{`[{"text":"x"}]`, "content[0].type"},
		{`[{"type":"song"}]`, "content[0].type"},
		{`[{"type":"reasoning","is_native":true,"reasoning":""}]`, "content[0].type"},
		{`[{"type":"text","text":"x"},{"type":"text"}]`, "content[1].text"},
		{`[{"type":"text","text":null}]`, "content[0].text"},
		{`[{"type":"text","text":"","signature":1}]`, "content[0]"},
		{`[{"type":"image"}]`, "content[0].source"},
		{`[{"type":"image","source":{"type":"url"}}]`, "content[0].source.url"},
		{`[{"type":"image","source":{"type":"url","url":null}}]`, "content[0].source.url"},
		{`[{"type":"image","source":{"type":"url","url":1}}]`, "content[0]"},
		{`[{"type":"image","source":{"type":"disk","url":"x"}}]`, "content[0].source.type"},
		{`[{"type":"image","source":{"type":"base64","data":"x"}}]`, "content[0].source.media_type"},
	} {
		_, err := DecodeParts("content", []byte(c.in))
		if e := chat.Public(err); chat.CodeOf(err) != chat.Invalid || e.Details["path"] != c.path || !strings.HasPrefix(e.Msg, c.path+": ") {
			t.Errorf("%s: %v", c.in, err)
		}
	}
}

// Folded messages fit the schema.
func TestFoldedMessagesFitTheSchema(t *testing.T) {
	s := schema(t)
	rapid.Check(t, func(rt *rapid.T) {
		for _, m := range whole(randomLog(rt, 60)) {
			if err := valid(t, s, m.AppendJSON(nil)); err != nil {
				rt.Fatalf("%s: %v", m.AppendJSON(nil), err)
			}
		}
	})
}
