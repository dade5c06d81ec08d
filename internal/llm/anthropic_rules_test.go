package llm_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/anthropic"
)

// Each row has messages and the JSON that the provider must get.
func TestAnthropicRules(t *testing.T) {
	const img = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD","detail":"low"}}`
	const call = `{"role":"assistant","model":"m","content":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"b\":\"x\"}"}}]}`
	const tool = `{"role":"tool","name":"f","tool_returns":[{"tool_call_id":"c1","status":"success","func_response":"one"},{"tool_call_id":"c2","status":"error","func_response":"bad"}]}`
	const q = `{"role":"user","content":[{"type":"text","text":"q"}]}`
	for _, c := range []struct{ rule, model, in, want string }{
		{"a later system message is an event in a user message", "m", `[` + q + `,{"role":"system","content":[{"type":"text","text":"low battery"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"<event>SYSTEM ALERT: low battery</event>","cache_control":{"type":"ephemeral"}}]}]`},
		{"results of parallel calls are one message, before the next text", "m", `[` + q + `,` + call + `,` + tool + `,` + q + `]`,
			`[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"a":1}},{"type":"tool_use","id":"c2","name":"g","input":{"b":"x"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{"type":"text","text":"bad"}]},{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]`},
		{"signed reasoning of the same model is sent back in order", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"S"},{"type":"reasoning","is_native":true,"reasoning":"unsigned"},{"type":"redacted_reasoning","data":"D"},{"type":"text","text":"x"}]},` + q + `]`,
			`[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"R","signature":"S"},{"type":"redacted_thinking","data":"D"},{"type":"text","text":"x"}]},{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]`},
		{"reasoning of another model and messages without other content are omitted", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"S"}]},` + q + `]`,
			`[{"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]`},
		{"images are sent by URL and as data; other types are replaced with a note", "m", `[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}},` + img + `,{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"QUJD"}}]}]`,
			`[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},{"type":"text","text":"[Image omitted]","cache_control":{"type":"ephemeral"}}]}]`},
		{"the conversation begins and ends with a user message; messages of one role are merged", "m", `[{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b \n"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"(The conversation begins.)"}]},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b \n"}]},{"role":"user","content":[{"type":"text","text":"(Go on from where you stopped.)","cache_control":{"type":"ephemeral"}}]}]`},
		{"reasoning at the end of a message is omitted", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"S"},{"type":"text","text":"x"},{"type":"reasoning","is_native":true,"reasoning":"R2","signature":"S2"},{"type":"redacted_reasoning","data":"D"}]},` + q + `]`,
			`[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"R","signature":"S"},{"type":"text","text":"x"}]},{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]`},
		{"an image at an http URL is replaced with its URL", "m", `[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://x/y"}}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"[Image at http://x/y]","cache_control":{"type":"ephemeral"}}]}]`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			ms := decodeMessages(t, []byte(c.in))
			r := llm.Request{Model: c.model, Messages: ms}
			p := anthropic.Messages(r)
			out, refused := p.Messages, checkAnthropic(p)
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

func TestAnthropicRequestsAsAWhole(t *testing.T) {
	ms := []llm.Message{{Role: llm.System, Content: llm.Texts("one", "two")}, {Role: llm.System, Content: llm.Texts("three")}, {Role: llm.User, Content: llm.Texts(strings.Repeat("ü", 30))}}
	r := llm.Request{Model: "gpt-5", Messages: ms, MaxTokens: 100, MaxText: 10, Tools: []llm.ToolSpec{{Name: "a.b", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}`)}}}
	b, err := json.Marshal(anthropic.Messages(r))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{`"max_tokens":100`, `"system":[{"type":"text","text":"one\n\ntwo"},{"type":"text","text":"three","cache_control":{"type":"ephemeral"}}]`, `"required":["x"]`, `"additionalProperties":false`} {
		if !strings.Contains(string(b), w) {
			t.Errorf("no %s in %s", w, b)
		}
	}
}

// After tool results, thinking is allowed only if the model thought before its first call.
func TestMayThink(t *testing.T) {
	think := []llm.Part{&llm.Reasoning{Native: true, Text: "hm", Signature: "S"}}
	step := func(n string, content ...llm.Part) []llm.Message {
		return []llm.Message{
			{Role: llm.Assistant, Model: "m", Content: content, ToolCalls: []llm.ToolCall{{ID: n, Name: "f", Arguments: "{}"}}},
			{Role: llm.Tool, ToolReturns: []llm.ToolReturn{{ToolCallID: n, Status: llm.Success, Text: "r"}}},
		}
	}
	asked := []llm.Message{{Role: llm.User, Content: llm.Texts("q")}}
	for _, c := range []struct {
		name     string
		messages []llm.Message
		model    string
		may      bool
	}{
		{"no calls", asked, "m", true},
		{"thinking before the call", slices.Concat(asked, step("1", think...)), "m", true},
		{"thinking before the first of two calls", slices.Concat(asked, step("1", think...), step("2")), "m", true},
		{"a call without thinking", slices.Concat(asked, step("1")), "m", false},
		{"thinking only before the second call", slices.Concat(asked, step("1"), step("2", think...)), "m", false},
		{"thinking of another model", slices.Concat(asked, step("1", think...)), "n", false},
		{"a call without thinking in an earlier turn", slices.Concat(asked, step("1"), []llm.Message{{Role: llm.Assistant, Content: llm.Texts("a")}}, asked), "m", true},
	} {
		p := anthropic.Messages(llm.Request{Model: c.model, Messages: c.messages})
		if anthropic.MayThink(p) != c.may {
			t.Errorf("%s: %v", c.name, !c.may)
		}
	}
}
