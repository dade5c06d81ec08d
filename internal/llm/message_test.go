package llm

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
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

// everything has every field and every kind of content.
const everything = `{
	"id":"message-123e4567-e89b-12d3-a456-426614174000","role":"assistant","name":"Ann","model":"m","agent_id":"a","conversation_id":null,
	"content":[
		{"type":"text","text":"","signature":null},{"type":"text","text":"hello","signature":"s","extra":[1,{"x":2}]},
		{"type":"image","source":{"type":"url","url":"https://x/y.png"}},
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA","detail":"low"}},
		{"type":"image","source":{"type":"letta","file_id":"f","media_type":null,"data":null,"detail":null}},
		{"type":"tool_call","id":"c","name":"n","input":{"a":1.50,"b":[]},"signature":"g"},
		{"type":"tool_return","tool_call_id":"c","content":"","is_error":false},
		{"type":"reasoning","is_native":true,"reasoning":"r","signature":""},
		{"type":"redacted_reasoning","data":"d"},{"type":"omitted_reasoning"},{"type":"omitted_reasoning","signature":null},
		{"type":"summarized_reasoning","id":"rs","summary":[{"index":0,"text":"t","kept":true}],"encrypted_content":"e"},
		{"type":"summarized_reasoning","id":"rs","summary":[]}
	],
	"tool_calls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{\"a\"","strict":true},"index":7}],
	"tool_call_id":"","tool_returns":[
		{"tool_call_id":{"odd":1},"status":"success","stdout":["a",""],"stderr":null,"func_response":"x"},
		{"tool_call_id":null,"status":"error","stdout":[],"func_response":null},{"status":"success","func_response":""},
		{"tool_call_id":"c","status":"success","func_response":[{"type":"text","text":"t"}]}],
	"step_id":"step-1","run_id":"run-1","otid":"","group_id":"g","sender_id":"s","batch_item_id":"b","is_err":false,
	"approval_request_id":"q","approve":true,"denial_reason":null,
	"approvals":[{"tool_call_id":"c","approve":false,"reason":null},{"type":"approval","tool_call_id":"c","approve":true,"reason":"r"},
		{"type":"tool","tool_call_id":"c","status":"success","func_response":"y"}],
	"created_at":"2024-01-02T03:04:05.120+02:00","updated_at":null,"created_by_id":"u","last_updated_by_id":null
}`

func equalJSON(t rapid.TB, want, got []byte) {
	t.Helper()
	var w, g any
	for b, into := range map[*[]byte]*any{&want: &w, &got: &g} {
		d := json.NewDecoder(bytes.NewReader(*b))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			t.Fatalf("%v in %s", err, *b)
		}
	}
	if !reflect.DeepEqual(w, g) {
		t.Fatalf("changed\n got %s\nwant %s", got, want)
	}
}

func TestDecodeAndEncodeChangesNothing(t *testing.T) {
	s := schema(t)
	for _, in := range []string{everything, `{"role":"user"}`, `{"role":"user","content":null}`, `{"role":"user","content":[],"tool_calls":[],"tool_returns":null,"approvals":[]}`} {
		if err := valid(t, s, []byte(in)); err != nil {
			t.Fatal(err)
		}
		m, err := Decode([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		out := m.AppendJSON(nil)
		equalJSON(t, []byte(in), out)
		if err := valid(t, s, out); err != nil {
			t.Error(err)
		}
	}
}

func TestFunctionIsTool(t *testing.T) {
	m, err := Decode([]byte(`{"role":"function","name":"f"}`))
	if err != nil || m.Role != Tool {
		t.Errorf("%v %v", m.Role, err)
	}
}

// What is wrong is named by its path; and the schema refuses it too.
func TestDecodeRefuses(t *testing.T) {
	s := schema(t)
	for _, c := range []struct{ in, path string }{
		{`[]`, ""},
		{`{`, ""},
		{`{}`, "role"},
		{`{"role":null}`, "role"},
		{`{"role":"boss"}`, "role"},
		{`{"role":"user","text":"x"}`, "text"},
		{`{"role":"user","content":"x"}`, "content"},
		{`{"role":"user","content":[1]}`, "content[0]"},
		{`{"role":"user","content":[{"text":"x"}]}`, "content[0].type"},
		{`{"role":"user","content":[{"type":"song"}]}`, "content[0].type"},
		{`{"role":"user","content":[{"type":"text","text":"x"},{"type":"text"}]}`, "content[1].text"},
		{`{"role":"user","content":[{"type":"text","text":null}]}`, "content[0].text"},
		{`{"role":"user","content":[{"type":"text","text":"","signature":1}]}`, "content[0].signature"},
		{`{"role":"user","content":[{"type":"image","source":{"type":"url"}}]}`, "content[0].source.url"},
		{`{"role":"user","content":[{"type":"image","source":{"type":"disk","url":"x"}}]}`, "content[0].source.type"},
		{`{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"x"}}]}`, "content[0].source.media_type"},
		{`{"role":"user","content":[{"type":"tool_call","id":"a","name":"b","input":[]}]}`, "content[0].input"},
		{`{"role":"user","content":[{"type":"reasoning","is_native":1,"reasoning":""}]}`, "content[0].is_native"},
		{`{"role":"user","content":[{"type":"summarized_reasoning","id":"a","summary":null}]}`, "content[0].summary"},
		{`{"role":"user","content":[{"type":"summarized_reasoning","id":"a","summary":[{"index":1.5,"text":""}]}]}`, "content[0].summary[0].index"},
		{`{"role":"user","content":[{"type":"summarized_reasoning","id":"a","summary":[],"encrypted_content":null}]}`, "content[0].encrypted_content"},
		{`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"x"}}]}`, "tool_calls[0].function.arguments"},
		{`{"role":"assistant","tool_calls":[{"id":"a","type":"custom","function":{"name":"x","arguments":""}}]}`, "tool_calls[0].type"},
		{`{"role":"tool","tool_returns":[{"tool_call_id":"a"}]}`, "tool_returns[0].status"},
		{`{"role":"tool","tool_returns":[{"status":"fine"}]}`, "tool_returns[0].status"},
		{`{"role":"tool","tool_returns":[{"status":"error","func_response":[{"type":"reasoning","is_native":true,"reasoning":""}]}]}`, "tool_returns[0].func_response[0].type"},
		{`{"role":"tool","tool_returns":[{"status":"error","stdout":["a",null]}]}`, "tool_returns[0].stdout[1]"},
		{`{"role":"approval","approvals":[{"approve":true}]}`, "approvals[0].tool_call_id"},
		{`{"role":"approval","approvals":[{"tool_call_id":"x"}]}`, "approvals[0].status"},
		{`{"role":"user","id":"123e4567-e89b-12d3-a456-426614174000"}`, "id"},
		{`{"role":"user","id":""}`, "id"},
		{`{"role":"user","id":null}`, "id"},
		{`{"role":"user","created_at":null}`, "created_at"},
		{`{"role":"user","created_at":"yesterday"}`, "created_at"},
		{`{"role":"user","is_err":"no"}`, "is_err"},
	} {
		_, err := Decode([]byte(c.in))
		if chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if e := chat.Public(err); e.Details["path"] != c.path || !strings.HasPrefix(e.Msg, c.path) {
			t.Errorf("%s: path %q, %s", c.in, e.Details["path"], e.Msg)
		}
		if valid(t, s, []byte(c.in)) == nil {
			t.Errorf("%s: the schema takes it", c.in)
		}
	}
	for _, in := range []string{`{"role":"user","role":"user"}`, `{"role":"user"} x`, "{\"role\":\"us\xff\"}"} {
		if _, err := Decode([]byte(in)); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%s: %v", in, err)
		}
	}
	_, err := DecodeList([]byte(`[{"role":"user"},{"role":"user","content":[{}]}]`))
	if e := chat.Public(err); e.Details["path"] != "[1].content[0].type" {
		t.Errorf("list: %v", err)
	}
}

// Whatever is accepted is encoded to the same value, which is accepted again and
// which the schema takes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{"role":"tool","tool_returns":[{"status":"error"}]}`))
	f.Add([]byte(`{"role":"approval","approvals":[{"tool_call_id":"x","approve":true}]}`))
	s := schema(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		out := m.AppendJSON(nil)
		if err := valid(t, s, out); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		again, err := Decode(out)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if twice := again.AppendJSON(nil); !bytes.Equal(out, twice) {
			t.Fatalf("\n%s\n%s", out, twice)
		}
		if valid(t, s, b) != nil {
			t.Fatalf("the schema refuses %s", b)
		}
		if m.Role != Tool && !bytes.Contains(b, []byte(`\u`)) { // function becomes tool, half a surrogate U+FFFD
			equalJSON(t, b, out)
		}
	})
}

// Messages made from a log are as the schema says.
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
