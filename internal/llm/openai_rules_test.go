package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/openai"
)

// Each row has messages and the JSON that the provider must get.
func TestOpenAIRules(t *testing.T) {
	const img = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD","detail":"low"}}`
	const call = `{"role":"assistant","model":"m","content":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"b\":\"x\"}"}}]}`
	const tool = `{"role":"tool","name":"f","tool_returns":[{"tool_call_id":"c1","status":"success","func_response":"one"},{"tool_call_id":"c2","status":"error","func_response":"bad"}]}`
	const q = `{"role":"user","content":[{"type":"text","text":"q"}]}`
	for _, c := range []struct{ rule, provider, model, in, want string }{
		{"a system message has the role system", "chat", "m", `[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, `[{"role":"system","content":"a\n\nb"}]`},
		{"a system message has the role developer for reasoning models", "chat", "openai/gpt-5-mini", `[{"role":"system","content":[{"type":"text","text":"a"}]}]`, `[{"role":"developer","content":"a"}]`},
		{"a system message has the role system for o1-mini", "chat", "o1-mini", `[{"role":"system","content":[{"type":"text","text":"a"}]}]`, `[{"role":"system","content":"a"}]`},
		{"a valid participant name is sent", "chat", "m", `[{"role":"user","name":"Ann","content":[{"type":"text","text":"a"}]}]`, `[{"role":"user","name":"Ann","content":"a"}]`},
		{"a participant name that is too long is omitted", "chat", "m", `[{"role":"user","name":"` + strings.Repeat("ä", 65) + `","content":[{"type":"text","text":"a"}]}]`, `[{"role":"user","content":"a"}]`},
		{"the longest participant name is sent", "chat", "m", `[{"role":"user","name":"` + strings.Repeat("ä", 64) + `","content":[{"type":"text","text":"a"}]}]`, `[{"role":"user","name":"` + strings.Repeat("ä", 64) + `","content":"a"}]`},
		{"an invalid participant name is omitted", "chat", "m", `[{"role":"user","name":"Ann B","content":[{"type":"text","text":"a"}]}]`, `[{"role":"user","content":"a"}]`},
		{"images are converted one by one", "chat", "m", `[` + q + `,` + call + `,` + tool + `,{"role":"user","name":"Ann","content":[{"type":"text","text":"see"},` + img + `,{"type":"image","source":{"type":"letta","file_id":"f1"}},{"type":"image","source":{"type":"url","url":"https://x/y"}}]}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"b\":\"x\"}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":"Error: bad"},
			{"role":"user","name":"Ann","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD","detail":"low"}},{"type":"text","text":"[Image omitted: f1]"},{"type":"image_url","image_url":{"url":"https://x/y","detail":"auto"}}]}]`},
		{"all reasoning is sent back to the same model", "chat", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R1"},{"type":"reasoning","is_native":true,"reasoning":"R2"},{"type":"text","text":"hello "},{"type":"text","text":"world"},{"type":"redacted_reasoning","data":"D"}]}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","content":"hello \n\nworld","reasoning_content":"R1\n\nR2","redacted_reasoning_content":"D"}]`},
		{"reasoning is not sent to another model", "chat", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R1"},{"type":"text","text":"x"}]}]`, `[{"role":"user","content":"q"},{"role":"assistant","content":"x"}]`},
		{"a message with only reasoning is omitted", "chat", "n", `[{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R1"}]},` + q + `]`, `[{"role":"user","content":"q"}]`},
		{"gpt-oss gets an empty content", "chat", "gpt-oss-20b", `[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":"r"}]}]`,
			`[{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]`},
		{"images of a tool are replaced with a note", "chat", "m", `[` + q + `,` + `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":[{"type":"text","text":"see"},` + img + `,` + img + `]}]}]`,
			`[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"see [2 images omitted]"}]`},
		{"arguments that are not an object are wrapped", "chat", "m", `[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"what?"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":"r"}]}]`,
			`[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"_malformed_tool_arguments\":\"what?\"}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]`},
		{"images of other types are replaced with a note", "chat", "m", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"QUJD"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"no base64"}},{"type":"image","source":{"type":"url","url":"data:image/JPG;base64,QUJD"}}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"[Image omitted]"},{"type":"text","text":"[Image omitted]"},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,QUJD","detail":"auto"}}]}]`},
		{"a summary has the role user", "chat", "m", `[{"role":"summary","content":[{"type":"text","text":"s"}]}]`, `[{"role":"user","content":"s"}]`},

		{"system messages have the role developer; user messages have parts", "responses", "m", `[{"role":"system","content":[{"type":"text","text":"a"}]},{"role":"user","content":[` + img + `,{"type":"text","text":"t"}]}]`,
			`[{"role":"developer","content":"a"},{"role":"user","content":[{"type":"input_image","detail":"low","image_url":"data:image/png;base64,QUJD"},{"type":"input_text","text":"t"}]}]`},
		{"reasoning is sent back to the same model, before the text or call that follows it", "responses", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"rs","summary":[{"index":0,"text":"s"}],"encrypted_content":"e"},{"type":"text","text":"x"},{"type":"summarized_reasoning","id":"rs2","summary":[],"encrypted_content":"e2"}]}]`,
			`[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},{"role":"assistant","content":"x"}]`},
		{"reasoning without an id is omitted", "responses", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"","summary":[],"encrypted_content":"e"},{"type":"text","text":"x"}]}]`,
			`[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"role":"assistant","content":"x"}]`},
		{"reasoning of another model is omitted", "responses", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"rs","summary":[],"encrypted_content":"e"},{"type":"text","text":"x"}]}]`,
			`[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"role":"assistant","content":"x"}]`},
		{"images of a tool are sent in its output", "responses", "m", `[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"error","func_response":[{"type":"text","text":"see"},` + img + `]}]}]`,
			`[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","status":"completed"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"Error:"},{"type":"input_text","text":"see"},{"type":"input_image","detail":"low","image_url":"data:image/png;base64,QUJD"}]}]`},
	} {
		t.Run(c.provider+" "+c.rule, func(t *testing.T) {
			ms := decodeMessages(t, []byte(c.in))
			r := llm.Request{Model: c.model, Messages: ms}
			var out any
			var refused error
			switch c.provider {
			case "chat":
				p := openai.Chat(r)
				out, refused = p.Messages, checkChat(p)
			case "responses":
				p := openai.Responses(r)
				out, refused = p.Input, checkResponses(p)
			}
			b, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			equalJSON(t, []byte(c.want), b)
			if refused != nil {
				t.Error(refused)
			}
		})
	}
}

func TestOpenAIRequestsAsAWhole(t *testing.T) {
	ms := []llm.Message{{Role: llm.System, Content: llm.Texts("one", "two")}, {Role: llm.System, Content: llm.Texts("three")}, {Role: llm.User, Content: llm.Texts(strings.Repeat("ü", 30))}}
	r := llm.Request{Model: "gpt-5", Messages: ms, MaxTokens: 100, MaxText: 10, Tools: []llm.ToolSpec{{Name: "a.b", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}`)}}}
	for name, c := range map[string]struct {
		out  any
		want []string
	}{
		"responses": {openai.Responses(r), []string{`"store":false`, `"include":["reasoning.encrypted_content"]`, `"summary":"detailed"`, `"max_output_tokens":100`, "üüüüüüüüüü... [truncated 20 chars]", `"a_b_`}},
		"chat":      {openai.Chat(r), []string{`"max_completion_tokens":100`, "üüüüüüüüüü... [truncated 20 chars]", `"description":"d"`, `"additionalProperties":false`}},
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
}
