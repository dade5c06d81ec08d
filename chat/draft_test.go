package chat

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func wantCode(t *testing.T, err error, code Code) {
	t.Helper()
	if CodeOf(err) != code {
		t.Fatalf("error %v has code %q, want %q", err, CodeOf(err), code)
	}
}

func TestInvalidDraftsAreRefused(t *testing.T) {
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for _, c := range []struct {
		name, in string
		code     Code
		says     string // part of the message
	}{
		{"nothing", ``, Invalid, "not a draft"},
		{"no JSON", `{"type":`, Invalid, "not valid JSON"},
		{"two values", `{"type":"user.message","payload":{"text":"a"}} {}`, Invalid, "not valid JSON"},
		{"a string", `"hello"`, Invalid, "cannot be a string"},
		{"a number", `7`, Invalid, "cannot be a number"},
		{"null", `null`, Invalid, "needs a type"},
		{"empty array", `[]`, Invalid, "nothing to append"},
		{"array of numbers", `[1]`, Invalid, "array of drafts"},
		{"no type", `{"payload":{"text":"a"}}`, Invalid, "needs a type"},
		{"type is no text", `{"type":7}`, Invalid, "type cannot be a number"},
		{"type in capitals", `{"type":"User.Message"}`, Invalid, "User.Message"},
		{"type without a dot", `{"type":"message"}`, Invalid, "dotted"},
		{"type with an empty word", `{"type":"user..message"}`, Invalid, "dotted"},
		{"type with a quote", `{"type":"a.b\",\"x\":\""}`, Invalid, "dotted"},
		{"long type", `{"type":"a.` + strings.Repeat("b", 63) + `"}`, Invalid, "64"},
		{"payload is text", `{"type":"user.message","payload":"hi"}`, Invalid, "must be an object"},
		{"payload is an array", `{"type":"user.message","payload":[]}`, Invalid, "must be an object"},
		{"wrong field type", `{"type":"user.message","payload":{"text":7}}`, Invalid, "text cannot be a number"},
		{"wrong nested type", `{"type":"agent.plan","payload":{"tasks":[{"id":1}]}}`, Invalid, "cannot be a number"},
		{"empty message", `{"type":"user.message","payload":{}}`, Invalid, "needs text or content"},
		{"null payload", `{"type":"user.message","payload":null}`, Invalid, "needs text or content"},
		{"bad part", `{"type":"user.message","payload":{"content":[{"type":"smell"}]}}`, Invalid, "content[0]"},
		{"part without text or URL", `{"type":"user.message","payload":{"content":[{"type":"text","text":"a"},{"type":"image"}]}}`, Invalid, "content[1]"},
		{"invalid UTF-8", "{\"type\":\"user.message\",\"payload\":{\"text\":\"\xff\"}}", Invalid, "UTF-8"},
		{"deep", `{"type":"odd.thing","payload":` + deep + `}`, Invalid, "nested"},
		{"very deep", `{"type":"odd.thing","payload":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, Invalid, "depth"},
		{"too large", `{"type":"user.message","payload":{"text":"` + strings.Repeat("x", MaxEvent) + `"}}`, TooLarge, "artifacts"},
		{"too many", `[` + strings.Repeat(`{},`, MaxDrafts) + `{}]`, TooLarge, "1000"},
		{"long client_id", `{"type":"user.message","payload":{"text":"a"},"client_id":"` + strings.Repeat("c", 257) + `"}`, Invalid, "client_id"},
		{"client_id is a number", `{"type":"user.message","payload":{"text":"a"},"client_id":1}`, Invalid, "client_id"},
		{"bad workstream", `{"type":"agent.text","payload":{"text":"a"},"workstream_id":"a b"}`, Invalid, "workstream"},
		{"workstream named all", `{"type":"agent.text","payload":{"text":"a"},"workstream_id":"all"}`, Invalid, "workstream"},
		{"bad parent", `{"type":"user.message","payload":{"text":"a"},"parent_id":"e-1"}`, Invalid, "parent_id"},
		{"bad block", `{"type":"agent.text","payload":{"text":"a","block":"a.b"}}`, Invalid, "block"},
		{"second draft is invalid", `[{"type":"user.message","payload":{"text":"a"}},{"type":"bad"}]`, Invalid, "draft 1: "},
		{"negative timeout", `{"type":"agent.input_request","payload":{"text":"?","timeout":-1}}`, Invalid, "timeout"},
		{"timeout too long", `{"type":"agent.input_request","payload":{"text":"?","timeout":1e10}}`, Invalid, "timeout"},
		{"unknown input type", `{"type":"agent.input_request","payload":{"input_type":"slider"}}`, Invalid, "slider"},
		{"binary with three options", `{"type":"agent.input_request","payload":{"input_type":"binary_choice","options":["a","b","c"]}}`, Invalid, "exactly 2"},
		{"radio without options", `{"type":"agent.input_request","payload":{"input_type":"radio"}}`, Invalid, "options"},
		{"options are numbers", `{"type":"agent.input_request","payload":{"options":[1]}}`, Invalid, "options"},
		{"min over max", `{"type":"agent.input_request","payload":{"input_type":"checkbox","options":["a","b","c"],"min":3,"max":2}}`, Invalid, "min and max"},
		{"approval without calls", `{"type":"agent.approval_request","payload":{}}`, Invalid, "calls"},
		{"approval of a call without a name", `{"type":"agent.approval_request","payload":{"calls":[{"tool":"a"}]}}`, Invalid, "call_id"},
		{"permission without scopes", `{"type":"agent.permission_request","payload":{"scopes":[]}}`, Invalid, "scopes"},
		{"call without a tool", `{"type":"agent.tool_call","payload":{}}`, Invalid, "tool"},
		{"artifact without a type", `{"type":"agent.artifact","payload":{}}`, Invalid, "type"},
		{"file without a path", `{"type":"file.uploaded","payload":{}}`, Invalid, "path"},
		{"answer without a request id", `{"type":"user.input_response","payload":{"text":"a"}}`, Invalid, "request_id"},
		{"withdrawal without a sequence", `{"type":"user.message_withdrawn","payload":{}}`, Invalid, "sequence"},
		{"title too long", `{"type":"session.updated","payload":{"title":"` + strings.Repeat("t", MaxTitle+1) + `"}}`, TooLarge, "title"},
		{"metadata is a list", `{"type":"session.started","payload":{"metadata":[]}}`, Invalid, "metadata"},
		{"unknown policy", `{"type":"session.started","payload":{"policy":"shout"}}`, Invalid, "shout"},
		{"unknown role", `{"type":"session.started","payload":{"members":[{"role":"king","actor":{"kind":"user","id":"a"}}]}}`, Invalid, "king"},
		{"member without a name", `{"type":"session.started","payload":{"members":[{"role":"viewer","actor":{"kind":"user"}}]}}`, Invalid, "member"},
		{"agent name with a space", `{"type":"session.started","payload":{"agent":"a b"}}`, Invalid, "agent"},
		{"workstream without an id", `{"type":"workstream.launched","payload":{"task":"x"}}`, Invalid, "workstream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			drafts, err := ParseDrafts([]byte(c.in))
			if drafts != nil || CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, %v; want %s with %q", drafts, err, c.code, c.says)
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatal("the error has no code of its own")
			}
		})
	}
}

func TestDraftsAreParsedAndNormalized(t *testing.T) {
	drafts, err := ParseDrafts([]byte(` [
		{"type":"user.message", "payload":{ "text" : "a  b\n" }, "client_id":"c-1", "extra":1},
		{"type":"odd.thing_2", "payload":[1, "<&>"], "workstream_id":"main"},
		{"type":"odd.other"} ]`))
	if err != nil {
		t.Fatal(err)
	}
	if d := drafts[0]; string(d.Payload) != `{"text":"a  b\n"}` || d.Body.(UserMessage).Text != "a  b\n" || d.ClientID != "c-1" {
		t.Errorf("%+v", d)
	}
	if d := drafts[1]; string(d.Payload) != `[1,"<&>"]` || d.Workstream != "" || d.Body.Type() != "odd.thing_2" {
		t.Errorf("%+v", d)
	}
	if d := drafts[2]; string(d.Payload) != `{}` {
		t.Errorf("%+v", d)
	}
	// Spaces do not change the digest.
	again, err := ParseDrafts([]byte(`{"payload":{"text":"a  b\n"},"type":"user.message"}`))
	if err != nil || again[0].Digest() != drafts[0].Digest() {
		t.Error("spaces change the digest", err)
	}
	other, err := ParseDrafts([]byte(`{"payload":{"text":"a b\n"},"type":"user.message"}`))
	if err != nil || other[0].Digest() == drafts[0].Digest() {
		t.Error("another text has the same digest", err)
	}
}

func TestNormalizeRefusesInvalidPayloads(t *testing.T) {
	for _, p := range []string{`{{{`, `{}x`, `"`, `{"a":1},"type":"user.message"`, "\xff", `{"a" : 1} }`} {
		d := Draft{Type: "odd.thing", Payload: json.RawMessage(p)}
		wantCode(t, d.Normalize(), Invalid)
		d = NewDraft(Unknown{Name: "odd.thing", Payload: json.RawMessage(p)})
		wantCode(t, d.Normalize(), Invalid)
	}
	d := NewDraft(Unknown{Name: "odd.thing"})
	if err := d.Normalize(); err != nil || string(d.Payload) != "{}" {
		t.Error(err, string(d.Payload))
	}
	d = NewDraft(AgentText{Text: "<b> & é"})
	if err := d.Normalize(); err != nil || string(d.Payload) != `{"text":"<b> & é"}` {
		t.Error(err, string(d.Payload))
	}
	d, err := d.As("k").WithBody(AgentText{Text: "other"})
	if err != nil || string(d.Payload) != `{"text":"other"}` || d.ClientID != "k" {
		t.Error(err, string(d.Payload))
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	wide := "[" + strings.Repeat("[],", 2000) + `"` + strings.Repeat(`[{\"`, 2000) + `"]`
	for _, c := range []struct {
		p  string
		ok bool
	}{{nest(maxDepth), true}, {nest(maxDepth + 1), false}, {wide, true}} {
		d := Draft{Type: "odd.thing", Payload: json.RawMessage(c.p)}
		if err := d.Normalize(); (err == nil) != c.ok {
			t.Errorf("%.20s…: %v", c.p, err)
		}
	}
}

// Where x1 has two spellings of a payload, both are read as the same.
func TestBothSpellingsOfAPayloadAreRead(t *testing.T) {
	for _, c := range []struct{ typ, ours, theirs string }{
		{"session.started", `{"agent":"a"}`, `{"agent_id":"a","session_id":"s"}`},
		{"session.failed", `{"error_message":"e"}`, `{"error":"e"}`},
		{"agent.tool_call", `{"call_id":"c","tool":"t","params":{"a":1}}`, `{"tool_use_id":"c","tool_name":"t","input":{"a":1}}`},
		{"agent.tool_result", `{"call_id":"c","tool":"t","result":["r"]}`, `{"tool_use_id":"c","tool_name":"t","content":["r"],"is_error":false}`},
		{"agent.tool_error", `{"call_id":"c","error":"e"}`, `{"tool_use_id":"c","content":"e","is_error":true}`},
		{"agent.tool_error", `{"tool":"t","error":"{\"code\":1}"}`, `{"tool":"t","error":{"code":1}}`},
		{"agent.input_request", `{"request_id":"r","input_type":"text","text":"q"}`, `{"request_id":"r","question":"q"}`},
		{"agent.input_request", `{"request_id":"r","input_type":"radio","text":"q","options":[{"id":"a","label":"a"}]}`, `{"request_id":"r","question":"q","options":["a"]}`},
		{"agent.status", `{"message":"d","phase":"s"}`, `{"status":"s","detail":"d"}`},
		{"agent.status", `{"message":"s","phase":"s"}`, `{"status":"s"}`},
		{"agent.artifact", `{"type":"code","title":"t","data":"x","language":"go"}`, `{"artifact_type":"code","title":"t","content":"x","language":"go"}`},
		{"user.input_response", `{"request_id":"r","text":"a"}`, `{"request_id":"r","answer":"a"}`},
	} {
		ours, err := DecodeBody(c.typ, json.RawMessage(c.ours))
		if err != nil {
			t.Fatal(c.typ, err)
		}
		theirs, err := DecodeBody(c.typ, json.RawMessage(c.theirs))
		if err != nil {
			t.Fatal(c.typ, err)
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%s: %+v and %+v", c.typ, ours, theirs)
		}
	}
}

// Every kind can be written and read, and ignores unknown fields.
func TestEveryKindRoundTrips(t *testing.T) {
	for name, zero := range Kinds() {
		if zero.Type() != name || CheckType(name) != nil {
			t.Errorf("%s is registered as %s", zero.Type(), name)
		}
		p, err := encodePayload(zero)
		if err != nil {
			t.Fatal(name, err)
		}
		body, err := DecodeBody(name, p)
		if err != nil {
			t.Fatal(name, err)
		}
		q, err := encodePayload(body)
		if err != nil || reflect.TypeOf(body) != reflect.TypeOf(zero) {
			t.Fatal(name, err)
		}
		third, err := DecodeBody(name, q)
		if err != nil || !reflect.DeepEqual(third, body) {
			t.Errorf("%s: %s became %s", name, p, q)
		}
		if _, err := DecodeBody(name, json.RawMessage(`{"a_field_of_the_future":{"x":[1]}}`)); err != nil {
			t.Errorf("%s refuses an unknown field: %v", name, err)
		}
		for _, bad := range []string{`7`, `"x"`, `[]`, `{`, `true`} {
			if _, err := DecodeBody(name, json.RawMessage(bad)); CodeOf(err) != Invalid {
				t.Errorf("%s accepts %s: %v", name, bad, err)
			}
		}
	}
}

func TestPlainText(t *testing.T) {
	m := UserMessage{Content: []Part{{Type: "text", Text: "a"}, {Type: "image", URL: "u"}, {Type: "text", Text: "b"}}}
	if m.PlainText() != "a\nb" || (UserMessage{Text: "t", Content: m.Content}).PlainText() != "t" {
		t.Error(m.PlainText())
	}
}

func TestADraftMayNameTheLastEvent(t *testing.T) {
	const text = `{"type":"user.message","payload":{"text":"x"},"after_sequence":7}`
	drafts, err := ParseDrafts([]byte(text))
	if err != nil || drafts[0].AfterSeq != 7 {
		t.Fatal(drafts, err)
	}
	if b, err := drafts[0].MarshalJSON(); err != nil || string(b) != text {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := ParseDrafts([]byte(strings.Replace(text, "7", "-7", 1))); CodeOf(err) != Invalid {
		t.Errorf("a negative sequence: %v", err)
	}
}

func TestDigestIgnoresTheSpelling(t *testing.T) {
	digest := func(text string) uint64 {
		t.Helper()
		drafts, err := ParseDrafts([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return drafts[0].Digest()
	}
	one := digest(`{"type":"user.message","payload":{"text":"a < b","content":[{"type":"text","text":"é"}]}}`)
	for _, text := range []string{
		`{"payload":{"content":[{"text":"\u00e9","type":"text"}],"text":"a \u003c b"},"type":"user.message"}`,
		"{\"type\":\"user.message\",\n\"payload\":{ \"text\" : \"a < b\", \"content\":[ {\"type\":\"text\",\"text\":\"é\"} ] } }",
	} {
		if digest(text) != one {
			t.Errorf("%s has another digest", text)
		}
	}
	if digest(`{"type":"user.message","payload":{"text":"a < c","content":[{"type":"text","text":"é"}]}}`) == one {
		t.Error("another text has the same digest")
	}
}
