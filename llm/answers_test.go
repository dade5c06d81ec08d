package llm

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"github.com/parley-hq/parley/chat"
)

// from reads a value as its SDK would.
func from[T any](t *testing.T, s string) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal([]byte(s), v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

// streamed feeds events, one per line, and gives the answer and all deltas.
func streamed[E any](t *testing.T, lines string, add func(E) []Delta, answer func() (Answer, error)) (Answer, string) {
	t.Helper()
	var deltas strings.Builder
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		for _, d := range add(*from[E](t, line)) {
			deltas.WriteString(string(d.Kind) + "(" + d.CallID + d.Text + ")")
		}
	}
	a, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	return a, deltas.String()
}

func check(t *testing.T, a Answer, stop Stop, message string) {
	t.Helper()
	equalJSON(t, []byte(message), a.Message.AppendJSON(nil))
	if a.Stop != stop {
		t.Errorf("stop %q, want %q", a.Stop, stop)
	}
}

const twoCalls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut\"}"}}]`

var dotted = Meta{Model: "m", Tools: []ToolSpec{{Name: "a.b"}, {Name: "g"}}}

func TestChatAnswers(t *testing.T) {
	name := toolNames(dotted.Tools, openAIName, "").of("a.b")
	a, err := FromOpenAIChat(from[openai.ChatCompletion](t, `{"model":"m-2026","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"hi","reasoning_content":"hm",
		"tool_calls":[{"id":"c1","type":"function","function":{"name":"`+name+`","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut"}}]}}],
		"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`), dotted)
	if err != nil {
		t.Fatal(err)
	}
	whole := `{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"hm"},{"type":"text","text":"hi"}],` + twoCalls + `}`
	check(t, a, StopCalls, whole)
	if a.Usage != (chat.Usage{InputTokens: 10, OutputTokens: 5, CacheReadTokens: 4, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	s := OpenAIChatStream{Meta: dotted}
	a, deltas := streamed(t, `
		{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"h"}}]}
		{"choices":[{"index":0,"delta":{"reasoning_content":"m"}}]}
		{"choices":[{"index":0,"delta":{"content":"h"}}]}
		{"choices":[{"index":0,"delta":{"content":"i"}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"`+name+`","arguments":""}},{"index":1,"id":"c2","function":{"name":"g","arguments":"{\"y\""}}]}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"other","function":{"arguments":":\"cut"}}]},"finish_reason":"tool_calls"}]}
		{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, s.Add, s.Answer)
	check(t, a, StopCalls, whole)
	if want := `thinking(h)thinking(m)text(h)text(i)call(c1)call(c2{"y")call(c1{"x":1})call(c2:"cut)`; deltas != want {
		t.Errorf("deltas %s", deltas)
	}
	if a.Usage.InputTokens != 10 {
		t.Errorf("usage %+v", a.Usage)
	}

	// A model of OpenAI that reasons shows nothing of it, but it did.
	a, err = FromOpenAIChat(from[openai.ChatCompletion](t, `{"choices":[{"finish_reason":"length","message":{"content":"x"}}]}`), Meta{Model: "gpt-5-mini"})
	if err != nil {
		t.Fatal(err)
	}
	check(t, a, StopLength, `{"role":"assistant","model":"gpt-5-mini","content":[{"type":"omitted_reasoning"},{"type":"text","text":"x"}]}`)

	// All of it in the reasoning: that is the answer.
	d := OpenAIChatStream{Meta: Meta{Model: "deepseek"}}
	a, _ = streamed(t, `{"choices":[{"index":0,"delta":{"reasoning_content":"42"},"finish_reason":"stop"}]}`, d.Add, d.Answer)
	check(t, a, StopEnd, `{"role":"assistant","model":"deepseek","content":[{"type":"text","text":"42"}]}`)

	for _, empty := range []string{`{"choices":[]}`, `{"choices":[{"finish_reason":"stop","message":{"content":null}}]}`} {
		if _, err := FromOpenAIChat(from[openai.ChatCompletion](t, empty), Meta{Model: "gpt-5"}); chat.CodeOf(err) != chat.Unavailable {
			t.Errorf("%s: %v", empty, err)
		}
	}
}

func TestResponsesAnswers(t *testing.T) {
	name := toolNames(dotted.Tools, openAIName, "").of("a.b")
	output := `[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"enc"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"first"},{"type":"output_text","text":"second"}]},
		{"type":"function_call","id":"fc_1","call_id":"c1","name":"` + name + `","arguments":"{\"x\":1}"},
		{"type":"function_call","id":"fc_2","call_id":"c2","name":"g","arguments":"{\"y\":\"cut\"}"}]`
	output = strings.ReplaceAll(strings.ReplaceAll(output, "\n", ""), "\t", "")
	done := `{"model":"x","status":"completed","output":` + output + `,"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12,"input_tokens_details":{"cached_tokens":1},"output_tokens_details":{"reasoning_tokens":2}}}`
	want := `{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"rs_1","summary":[{"index":0,"text":"one"},{"index":1,"text":"two"}],"encrypted_content":"enc"},
		{"type":"text","text":"first"},{"type":"text","text":"second"}],` + twoCalls + `}`
	a, err := FromOpenAIResponses(from[responses.Response](t, done), dotted)
	if err != nil {
		t.Fatal(err)
	}
	check(t, a, StopCalls, want)
	if a.Usage != (chat.Usage{InputTokens: 9, OutputTokens: 3, CacheReadTokens: 1, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	s := OpenAIResponsesStream{Meta: dotted}
	a, deltas := streamed(t, `
		{"type":"response.created","response":{"status":"in_progress"}}
		{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}
		{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"one"}
		{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1}
		{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"two"}
		{"type":"response.output_text.delta","output_index":1,"delta":"first"}
		{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"`+name+`"}}
		{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"x\":1}"}
		{"type":"response.completed","response":`+done+`}`, s.Add, s.Answer)
	check(t, a, StopCalls, want)
	if wantDeltas := "thinking(one)thinking(\n\n)thinking(two)text(first)call(c1)call(c1{\"x\":1})"; deltas != wantDeltas {
		t.Errorf("deltas %s", deltas)
	}

	// Cut off: what was finished counts.
	s = OpenAIResponsesStream{Meta: dotted}
	a, _ = streamed(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"half"}]}}`, s.Add, s.Answer)
	check(t, a, StopFailure, `{"role":"assistant","model":"m","content":[{"type":"text","text":"half"}]}`)

	s = OpenAIResponsesStream{}
	s.Add(*from[responses.ResponseStreamEventUnion](t, `{"type":"error","code":"rate_limit","message":"slow down"}`))
	if _, err := s.Answer(); chat.CodeOf(err) != chat.Unavailable || !strings.Contains(err.Error(), "slow down") {
		t.Errorf("error event: %v", err)
	}
	a, err = FromOpenAIResponses(from[responses.Response](t, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]}`), Meta{})
	if err != nil || a.Stop != StopLength {
		t.Errorf("%v %v", a.Stop, err)
	}
}

func TestAnthropicAnswers(t *testing.T) {
	name := toolNames(dotted.Tools, anthropicName, "").of("a.b")
	want := `{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"hm","signature":"sig"},{"type":"redacted_reasoning","data":"xx"},{"type":"text","text":"hi"}],` + twoCalls + `}`
	a, err := FromAnthropic(from[anthropic.Message](t, `{"model":"claude","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xx"},
		{"type":"text","text":"hi"},{"type":"tool_use","id":"c1","name":"`+name+`","input":{"x":1}},{"type":"tool_use","id":"c2","name":"g","input":{"y":"cut"}}],
		"usage":{"input_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":7}}`), dotted)
	if err != nil {
		t.Fatal(err)
	}
	check(t, a, StopCalls, want)
	if a.Usage != (chat.Usage{InputTokens: 10, OutputTokens: 7, CacheReadTokens: 3, CacheCreationTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	s := AnthropicStream{Meta: dotted}
	a, deltas := streamed(t, `
		{"type":"message_start","message":{"model":"claude","usage":{"input_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":1}}}
		{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
		{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}
		{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}
		{"type":"content_block_stop","index":0}
		{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xx"}}
		{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}
		{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"h"}}
		{"type":"ping"}
		{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"i"}}
		{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"c1","name":"`+name+`","input":{}}}
		{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"x\""}}
		{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":":1}"}}
		{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"c2","name":"g","input":{}}}
		{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"y\":\"cut"}}
		{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}
		{"type":"message_stop"}`, s.Add, s.Answer)
	check(t, a, StopCalls, want)
	if want := `thinking(hm)text(h)text(i)call(c1)call(c1{"x")call(c1:1})call(c2)call(c2{"y":"cut)`; deltas != want {
		t.Errorf("deltas %s", deltas)
	}
	if a.Usage != (chat.Usage{InputTokens: 10, OutputTokens: 7, CacheReadTokens: 3, CacheCreationTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}
	for reason, stop := range map[string]Stop{"end_turn": StopEnd, "max_tokens": StopLength, "stop_sequence": StopEnd, "refusal": StopFilter, "strange": StopFailure} {
		a, _ := FromAnthropic(from[anthropic.Message](t, `{"stop_reason":"`+reason+`","content":[{"type":"text","text":"x"}]}`), Meta{})
		if a.Stop != stop {
			t.Errorf("%s: %s", reason, a.Stop)
		}
	}
}

func TestGeminiAnswers(t *testing.T) {
	want := `{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"hm"},{"type":"text","text":"hi"},
		{"type":"tool_call","id":"c1","name":"a.b","input":{"x":1},"signature":"c2ln"},{"type":"tool_call","id":"c2","name":"g","input":{"y":"cut"}}],` + twoCalls + `}`
	s := GeminiStream{Meta: dotted}
	a, deltas := streamed(t, strings.Join([]string{
		`{"responseId":"r1","candidates":[{"content":{"role":"model","parts":[{"text":"h","thought":true}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"m","thought":true},{"text":"h"}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"i"}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"a.b","args":{"x":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"c2","name":"g","args":{"y":"cut"}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":1}}`,
	}, "\n"), func(r genai.GenerateContentResponse) []Delta { return s.Add(&r) }, s.Answer)
	check(t, a, StopCalls, want)
	if want := `thinking(h)thinking(m)text(h)text(i)call(c1{"x":1})call(c2{"y":"cut"})`; deltas != want {
		t.Errorf("deltas %s", deltas)
	}
	if a.Usage != (chat.Usage{InputTokens: 8, OutputTokens: 5, CacheReadTokens: 1, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	// The same answer goes back to the same model with every signature in place.
	contents, _ := Gemini(Request{Model: "m", Messages: []Message{{Role: User, Content: Texts("q")}, a.Message}})
	var signed []string
	for _, p := range contents[1].Parts {
		if p.FunctionCall != nil {
			signed = append(signed, p.FunctionCall.Name+" "+string(p.ThoughtSignature))
		}
	}
	if !reflect.DeepEqual(signed, []string{"a.b sig", "g "}) {
		t.Errorf("signatures %q", signed)
	}

	// Calls without ids get some, the same for the same answer.
	r := from[genai.GenerateContentResponse](t, `{"responseId":"r","candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}`)
	one, err := FromGemini(r, Meta{})
	two, _ := FromGemini(r, Meta{})
	if err != nil || one.Message.ToolCalls[0].ID == one.Message.ToolCalls[1].ID || one.Message.ToolCalls[0].ID != two.Message.ToolCalls[0].ID {
		t.Errorf("%v %+v %+v", err, one.Message.ToolCalls, two.Message.ToolCalls)
	}
	blocked := from[genai.GenerateContentResponse](t, `{"promptFeedback":{"blockReason":"SAFETY"}}`)
	if a, err := FromGemini(blocked, Meta{}); chat.CodeOf(err) != chat.Unavailable || a.Stop != StopFilter {
		t.Errorf("blocked: %v %v", a.Stop, err)
	}
}
