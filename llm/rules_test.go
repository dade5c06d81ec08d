package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Each row is a rule: what goes in, and what the provider's JSON must be. A row
// with an m object in front of it changes the request.
func TestConversionRules(t *testing.T) {
	const img = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD","detail":"low"}}`
	const call = `{"role":"assistant","model":"m","content":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"b\":\"x"}}]}`
	const tool = `{"role":"tool","name":"f","tool_returns":[{"tool_call_id":"c1","status":"success","func_response":"one"},{"tool_call_id":"c2","status":"error","func_response":"bad"}]}`
	const q = `{"role":"user","content":[{"type":"text","text":"q"}]}`
	for _, c := range []struct{ rule, provider, model, in, want string }{
		{"system is system", "chat", "m", `[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, `[{"role":"system","content":"a\n\nb"}]`},
		{"developer for models that reason", "chat", "openai/gpt-5-mini", `[{"role":"system","content":[{"type":"text","text":"a"}]}]`, `[{"role":"developer","content":"a"}]`},
		{"but not for o1-mini", "chat", "o1-mini", `[{"role":"system","content":[{"type":"text","text":"a"}]}]`, `[{"role":"system","content":"a"}]`},
		{"a name that fits", "chat", "m", `[{"role":"user","name":"Ann","content":[{"type":"text","text":"a"}]}]`, `[{"role":"user","name":"Ann","content":"a"}]`},
		{"a name that does not", "chat", "m", `[{"role":"user","name":"Ann B","content":[{"type":"text","text":"a"}]}]`, `[{"role":"user","content":"a"}]`},
		{"each image by itself, whatever else is in the list", "chat", "m", `[` + q + `,` + call + `,` + tool + `,{"role":"user","name":"Ann","content":[{"type":"text","text":"see"},` + img + `,{"type":"image","source":{"type":"letta","file_id":"f1"}},{"type":"image","source":{"type":"url","url":"https://x/y"}}]}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"b\":\"x\"}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":"Error: bad"},
			{"role":"user","name":"Ann","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD","detail":"low"}},{"type":"text","text":"[Image omitted: f1]"},{"type":"image_url","image_url":{"url":"https://x/y","detail":"auto"}}]}]`},
		{"reasoning goes back to its model, all of it", "chat", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R1"},{"type":"reasoning","is_native":true,"reasoning":"R2"},{"type":"text","text":"hello "},{"type":"text","text":"world"},{"type":"redacted_reasoning","data":"D"}]}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","content":"hello \n\nworld","reasoning_content":"R1\n\nR2","redacted_reasoning_content":"D"}]`},
		{"and to no other", "chat", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R1"},{"type":"text","text":"x"}]}]`, `[{"role":"user","content":"q"},{"role":"assistant","content":"x"}]`},
		{"only thoughts are left out", "chat", "n", `[{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R1"}]},` + q + `]`, `[{"role":"user","content":"q"}]`},
		{"gpt-oss takes no null", "chat", "gpt-oss-20b", `[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":"r"}]}]`,
			`[{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]`},
		{"images of a tool become words", "chat", "m", `[` + q + `,` + `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":[{"type":"text","text":"see"},` + img + `,` + img + `]}]}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"see [2 images omitted]"}]`},
		{"arguments that are no object are kept as words", "chat", "m", `[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"what?"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":"r"}]}]`,
			`[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"_malformed_tool_arguments\":\"what?\"}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]`},
		{"a summary is from the user", "chat", "m", `[{"role":"summary","content":[{"type":"text","text":"s"}]}]`, `[{"role":"user","content":"s"}]`},

		{"developer, parts and pictures", "responses", "m", `[{"role":"system","content":[{"type":"text","text":"a"}]},{"role":"user","content":[` + img + `,{"type":"text","text":"t"}]}]`,
			`[{"role":"developer","content":"a"},{"role":"user","content":[{"type":"input_image","detail":"low","image_url":"data:image/png;base64,QUJD"},{"type":"input_text","text":"t"}]}]`},
		{"a thought goes back to its model, before what came of it", "responses", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"rs","summary":[{"index":0,"text":"s"}],"encrypted_content":"e"},{"type":"text","text":"x"},{"type":"summarized_reasoning","id":"rs2","summary":[],"encrypted_content":"e2"}]}]`,
			`[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},{"role":"assistant","content":"x"}]`},
		{"a foreign one does not", "responses", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"rs","summary":[],"encrypted_content":"e"},{"type":"text","text":"x"}]}]`,
			`[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"role":"assistant","content":"x"}]`},
		{"pictures of a tool survive", "responses", "m", `[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"error","func_response":[{"type":"text","text":"see"},` + img + `]}]}]`,
			`[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","status":"completed"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"Error:"},{"type":"input_text","text":"see"},{"type":"input_image","detail":"low","image_url":"data:image/png;base64,QUJD"}]}]`},

		{"a later alert is closed properly", "anthropic", "m", `[` + q + `,{"role":"system","content":[{"type":"text","text":"low battery"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"<event>SYSTEM ALERT: low battery</event>","cache_control":{"type":"ephemeral"}}]}]`},
		{"results together, in front, with their errors", "anthropic", "m", `[` + q + `,` + call + `,` + tool + `,` + q + `]`,
			`[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"a":1}},{"type":"tool_use","id":"c2","name":"g","input":{"b":"x"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{"type":"text","text":"bad"}]},{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]`},
		{"signed thoughts of the same model, in order", "anthropic", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"S"},{"type":"reasoning","is_native":true,"reasoning":"unsigned"},{"type":"redacted_reasoning","data":"D"},{"type":"text","text":"x"}]},` + q + `]`,
			`[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"R","signature":"S"},{"type":"redacted_thinking","data":"D"},{"type":"text","text":"x"}]},{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]`},
		{"none of a foreign one; what is then empty goes", "anthropic", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"S"}]},` + q + `]`,
			`[{"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]`},
		{"images by address and inline, one by one", "anthropic", "m", `[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}},` + img + `,{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"QUJD"}}]}]`,
			`[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},{"type":"text","text":"[Image omitted]","cache_control":{"type":"ephemeral"}}]}]`},
		{"the person speaks first, in a row is one", "anthropic", "m", `[{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b \n"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"(The conversation begins.)"}]},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]}]`},

		{"calls and results keep their own names", "gemini", "m", `[` + q + `,` + call + `,` + tool + `,` + q + `]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}}},{"functionCall":{"id":"c2","name":"g","args":{"b":"x"}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":"one"}}},{"functionResponse":{"id":"c2","name":"g","response":{"error":"bad"}}}]},
			{"role":"model","parts":[{"text":"(Waiting for the user.)"}]},{"role":"user","parts":[{"text":"q"}]}]`},
		{"calls from elsewhere are not lost beside text", "gemini", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"c2ln"},{"type":"text","text":"x"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":"{\"k\":1}"}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"x"},{"functionCall":{"id":"c","name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":{"k":1}}}}]}]`},
		{"the signature of a thought signs the first call", "gemini", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"c2ln"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success"}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"R","thought":true},{"functionCall":{"id":"c","name":"f"},"thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":""}}}]}]`},
		{"a signature on empty text is kept", "gemini", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"text","text":"x"},{"type":"text","text":"","signature":"c2ln"}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"x"},{"thoughtSignature":"c2ln"}]}]`},
		{"pictures of a tool follow its answers", "gemini", "m", `[` + q + `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":[` + img + `]}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"c","name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":"[1 image(s) attached]"}}},{"inlineData":{"data":"QUJD","mimeType":"image/png"}}]}]`},
	} {
		t.Run(c.provider+" "+c.rule, func(t *testing.T) {
			ms, err := DecodeList([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			r := Request{Model: c.model, Messages: ms}
			var out any
			switch c.provider {
			case "chat":
				out = OpenAIChat(r).Messages
			case "responses":
				out = OpenAIResponses(r).Input
			case "anthropic":
				out = Anthropic(r).Messages
			case "gemini":
				out, _ = Gemini(r)
			}
			b, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			equalJSON(t, []byte(c.want), b)
			if err := checkers[c.provider](r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRequestsAsAWhole(t *testing.T) {
	ms := []Message{{Role: System, Content: Texts("one", "two")}, {Role: System, Content: Texts("three")}, {Role: User, Content: Texts(strings.Repeat("ü", 30))}}
	r := Request{Model: "gpt-5", Messages: ms, MaxTokens: 100, MaxText: 10, Tools: []ToolSpec{{Name: "a.b", Description: "d", Parameters: raw(`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}`)}}}
	for name, c := range map[string]struct {
		out  any
		want []string
	}{
		"responses": {OpenAIResponses(r), []string{`"store":false`, `"include":["reasoning.encrypted_content"]`, `"summary":"detailed"`, `"max_output_tokens":100`, "üüüüüüüüüü... [truncated 20 chars]", `"a_b_`}},
		"chat":      {OpenAIChat(r), []string{`"max_completion_tokens":100`, "üüüüüüüüüü... [truncated 20 chars]", `"description":"d"`, `"additionalProperties":false`}},
		"anthropic": {Anthropic(r), []string{`"max_tokens":100`, `"system":[{"text":"one\n\ntwo","type":"text"},{"text":"three","cache_control":{"type":"ephemeral"},"type":"text"}]`, `"required":["x"]`, `"additionalProperties":false`}},
	} {
		b, err := json.Marshal(c.out)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.want {
			if !strings.Contains(string(b), w) {
				t.Errorf("%s: no %s in %s", name, w, b)
			}
		}
	}
	_, config := Gemini(r)
	if config.MaxOutputTokens != 100 || len(config.SystemInstruction.Parts) != 2 || config.Tools[0].FunctionDeclarations[0].Name != "a.b" {
		t.Errorf("gemini %+v", config)
	}
}

// Ids and names that differ only where a provider does not look stay different.
func TestNamesDoNotCollide(t *testing.T) {
	n := newNames(20, "")
	seen := map[string]string{}
	for _, s := range []string{"a/b", "a.b", "a_b", strings.Repeat("x", 30), strings.Repeat("x", 31), "", "ok"} {
		made := n.of(s)
		if other, twice := seen[made]; twice || len(made) > 20 || len(made) == 0 {
			t.Errorf("%q and %q are both %q", s, other, made)
		}
		seen[made] = s
		if n.of(s) != made {
			t.Errorf("%q changes its name", s)
		}
	}
	if n.of("ok") != "ok" || n.of("a_b") != "a_b" && seen["a_b"] != "a/b" {
		t.Error("a name that fits is kept")
	}
}

func TestRepairExamples(t *testing.T) {
	short := func(ms []Message) string {
		var out []string
		for i := range ms {
			s := string(ms[i].Role)
			for _, c := range ms[i].ToolCalls {
				s += " " + c.ID
			}
			for _, r := range ms[i].ToolReturns {
				s += fmt.Sprintf(" %s=%s", r.ToolCallID, clip(r.Text))
			}
			out = append(out, s)
		}
		return strings.Join(out, "; ")
	}
	call := func(role Role, ids ...string) Message {
		m := Message{Role: role, Content: Texts("t")}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Name: "f", Arguments: "{}"})
		}
		return m
	}
	tool := func(pairs ...string) Message {
		m := Message{Role: Tool}
		for _, p := range pairs {
			id, text, _ := strings.Cut(p, "=")
			m.ToolReturns = append(m.ToolReturns, ToolReturn{ToolCallID: id, Status: Success, Text: text})
		}
		return m
	}
	user := Message{Role: User, Content: Texts("u")}
	deny := Message{Role: Approval, Approvals: []Verdict{&ToolApproval{ToolCallID: "c0", Reason: "no"}}}
	allow := Message{Role: Approval, Approvals: []Verdict{&ToolApproval{ToolCallID: "c0", Approve: true}}}
	ran := Message{Role: Approval, Approvals: []Verdict{&ToolReturn{ToolCallID: "c0", Status: Success, Text: "mine"}}}
	summary := Message{Role: Summary, Content: Texts("s")}
	const lost = "Error: this tool call has no result; it was cut off and may …"
	for _, c := range []struct {
		name string
		in   []Message
		want string
	}{
		{"a request joins its assistant", []Message{user, call(Assistant, "c0"), call(Approval, "c1", "c0"), allow, tool("c0=a", "c1=b", "c1=again")}, "user; assistant c0 c1; tool c0=a c1=b"},
		{"only a request", []Message{call(Approval, "c0")}, ""},
		{"an open request at the end goes with the calls beside it", []Message{user, call(Assistant, "c1"), call(Approval, "c0")}, "user"},
		{"but not what was only said", []Message{user, call(Assistant), call(Approval, "c0")}, "user; assistant"},
		{"a request behind which a summary came", []Message{user, call(Approval, "c0"), summary, allow, user}, "user; summary; user"},
		{"a call without a result", []Message{user, call(Assistant, "c0"), user}, "user; assistant c0; tool c0=" + lost + "; user"},
		{"a result without a call", []Message{user, tool("c9=x"), user}, "user; user"},
		{"a late result moves up", []Message{user, call(Assistant, "c0", "c1"), tool("c0=a"), user, tool("c1=b")}, "user; assistant c0 c1; tool c0=a c1=b; user"},
		{"a refusal is a result", []Message{user, call(Approval, "c0"), deny, user}, "user; assistant c0; tool c0=" + clip(denial("no")) + "; user"},
		{"so is what a client ran", []Message{user, call(Approval, "c0"), ran, user}, "user; assistant c0; tool c0=mine; user"},
		{"unless the log has it too", []Message{user, call(Approval, "c0"), ran, tool("c0=theirs")}, "user; assistant c0; tool c0=theirs"},
		{"ids used again are told apart", []Message{user, call(Assistant, "c0"), tool("c0=a"), call(Assistant, "c0"), tool("c0=b")}, "user; assistant c0; tool c0=a; assistant c0_2; tool c0_2=b"},
		{"a call said twice is one", []Message{user, call(Approval, "c0"), allow, call(Assistant, "c0"), tool("c0=a")}, "user; assistant c0; tool c0=a; assistant"},
	} {
		before := dump(c.in)
		if got := short(Repair(c.in)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		if string(before) != string(dump(c.in)) {
			t.Errorf("%s: changed what it was given", c.name)
		}
	}
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
