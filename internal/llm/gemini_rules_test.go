package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/gemini"
)

// Each row has messages and the JSON that the provider must get.
func TestGeminiRules(t *testing.T) {
	const img = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD","detail":"low"}}`
	const call = `{"role":"assistant","model":"m","content":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"b\":\"x\"}"}}]}`
	const tool = `{"role":"tool","name":"f","tool_returns":[{"tool_call_id":"c1","status":"success","func_response":"one"},{"tool_call_id":"c2","status":"error","func_response":"bad"}]}`
	const q = `{"role":"user","content":[{"type":"text","text":"q"}]}`
	for _, c := range []struct{ rule, model, in, want string }{
		{"calls and results have the tool's name", "m", `[` + q + `,` + call + `,` + tool + `,` + q + `]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}}},{"functionCall":{"id":"c2","name":"g","args":{"b":"x"}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":"one"}}},{"functionResponse":{"id":"c2","name":"g","response":{"error":"bad"}}}]},
			{"role":"model","parts":[{"text":"(Waiting for the user.)"}]},{"role":"user","parts":[{"text":"q"}]}]`},
		{"calls without a content part follow the text", "n", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"c2ln"},{"type":"text","text":"x"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":"{\"k\":1}"}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"x"},{"functionCall":{"id":"c","name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":{"k":1}}}}]}]`},
		{"the signature of reasoning is sent with the first call", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"R","signature":"c2ln"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success"}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"R","thought":true},{"functionCall":{"id":"c","name":"f"},"thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":""}}}]}]`},
		{"the signature of an empty text is sent with the text before it", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"text","text":"x"},{"type":"text","text":"","signature":"c2ln"}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"x","thoughtSignature":"c2ln"}]}]`},
		{"the signature of an empty text is sent with the call if there is no text", "m", `[` + q + `,{"role":"assistant","model":"m","content":[{"type":"text","text":"","signature":"c2ln"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success"}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"c","name":"f"},"thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":""}}}]}]`},
		{"a call without a signature gets the placeholder for models that require one", "gemini-3-pro", `[` + q + `,` + call + `,` + tool + `]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="},{"functionCall":{"id":"c2","name":"g","args":{"b":"x"}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":"one"}}},{"functionResponse":{"id":"c2","name":"g","response":{"error":"bad"}}}]}]`},
		{"images of other types are replaced with a note", "m", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"QUJD"}},{"type":"image","source":{"type":"base64","media_type":"image/jpg","data":"QUJD"}}]}]`,
			`[{"role":"user","parts":[{"text":"[Image omitted]"},{"inlineData":{"data":"QUJD","mimeType":"image/jpeg"}}]}]`},
		{"images of a tool follow the results", "m", `[` + q + `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_returns":[{"tool_call_id":"c","status":"success","func_response":[` + img + `]}]}]`,
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"c","name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":"[1 image(s) attached]"}}},{"inlineData":{"data":"QUJD","mimeType":"image/png"}}]}]`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			ms := decodeMessages(t, []byte(c.in))
			r := llm.Request{Model: c.model, Messages: ms}
			out := gemini.Contents(r)
			refused := checkGemini(c.model, out)
			b, err := json.Marshal(out.Contents)
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

func TestGeminiRequestsAsAWhole(t *testing.T) {
	ms := []llm.Message{{Role: llm.System, Content: llm.Texts("one", "two")}, {Role: llm.System, Content: llm.Texts("three")}, {Role: llm.User, Content: llm.Texts(strings.Repeat("ü", 30))}}
	r := llm.Request{Model: "gpt-5", Messages: ms, MaxTokens: 100, MaxText: 10, Tools: []llm.ToolSpec{{Name: "a.b", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}`)}}}
	out := gemini.Contents(r)
	if out.Config.MaxOutputTokens != 100 || len(out.SystemInstruction.Parts) != 2 || out.Tools[0].Functions[0].Name != "a.b" {
		t.Errorf("gemini %+v", out)
	}
}
