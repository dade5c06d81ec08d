package llm_test

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
	"github.com/parley-hq/parley/internal/llm/openai"
)

func TestChatAnswers(t *testing.T) {
	name := convert.ToolNames(dotted.Tools, 64, "").Of("a.b")
	whole := `{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"hm"},{"type":"text","text":"hi"}],` + cutCalls + `}`
	s := openai.ChatStream{Meta: dotted}
	a, deltas := readStream(t, `
		{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"h"}}]}
		{"choices":[{"index":0,"delta":{"reasoning_content":"m"}}]}
		{"choices":[{"index":0,"delta":{"content":"h"}}]}
		{"choices":[{"index":0,"delta":{"content":"i"}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"`+name+`","arguments":""}},{"index":1,"id":"c2","function":{"name":"g","arguments":"{\"y\""}}]}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"other","function":{"arguments":":\"cut"}}]},"finish_reason":"tool_calls"}]}
		{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`, &s)
	checkAnswer(t, a, llm.StopCalls, whole)
	if want := `thinking(h)thinking(m)text(h)text(i)call(c1)call(c2{"y")call(c1{"x":1})call(c2:"cut)`; deltas != want {
		t.Errorf("deltas %s", deltas)
	}
	if a.Usage != (chat.Usage{InputTokens: 10, OutputTokens: 5, CacheReadTokens: 4, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	// An OpenAI reasoning model does not return its reasoning; a placeholder is stored.
	s = openai.ChatStream{Meta: llm.Meta{Model: "gpt-5-mini"}}
	a, _ = readStream(t, `{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}`, &s)
	checkAnswer(t, a, llm.StopLength, `{"role":"assistant","model":"gpt-5-mini","content":[{"type":"omitted_reasoning"},{"type":"text","text":"x"}]}`)

	// Only reasoning: the reasoning is the answer.
	d := openai.ChatStream{Meta: llm.Meta{Model: "deepseek"}}
	a, _ = readStream(t, `{"choices":[{"index":0,"delta":{"reasoning_content":"42"},"finish_reason":"stop"}]}`, &d)
	checkAnswer(t, a, llm.StopEnd, `{"role":"assistant","model":"deepseek","content":[{"type":"text","text":"42"}]}`)

	for _, empty := range []string{`{"choices":[]}`, `{"choices":null}`, `{}`, `{"choices":[{"finish_reason":"stop","delta":{"content":null}}]}`} {
		s := openai.ChatStream{Meta: llm.Meta{Model: "gpt-5"}}
		if _, err := s.Add([]byte(empty)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Answer(); chat.CodeOf(err) != chat.Unavailable {
			t.Errorf("%s: %v", empty, err)
		}
	}
}

// Chunks of servers that deviate from the protocol are read.
func TestChatChunksOfManyServers(t *testing.T) {
	for event, want := range map[string]string{
		`{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"a \u00e9\n"},"finish_reason":null}]}`:                     "text(a é\n)",
		`{"choices":[{"delta":{"role":"assistant","content":"b","refusal":null,"tool_calls":null},"logprobs":null}],"usage":null}`: "text(b)",
		`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`:                                    "text(a)",
		`{"choices":[{"index":0,"delta":{"reasoning":"hm","content":"so"}}]}`:                                                      "thinking(hm)text(so)",
		`{"choices":[{"index":0,"delta":{"reasoning":{"a":1},"content":"so"}}]}`:                                                   "text(so)",
		`{"choices":[{"index":0,"delta":{"refusal":"no"}}]}`:                                                                       "text(no)",
		`{"choices":[{"index":"0","delta":{"content":[{"type":"text","text":"par"},{"type":"text","text":"ts"}]}}]}`:               "text(parts)",
		`{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":{"a": 1}}}]}}]}`:                         `call(c{"a": 1})`,
		`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":"3","completion_tokens":2.0}}`:                            "text(x)",
		`{"error":null,"choices":[{"delta":{"content":"x"}}]}`:                                                                     "text(x)",
	} {
		var s openai.ChatStream
		if _, got := readStream(t, event, &s); got != want {
			t.Errorf("%s: %s, want %s", event, got, want)
		}
	}
	for event, want := range map[string]llm.EndpointError{
		`{"error":{"message":"The GPU is on fire","type":"server_error","code":null}}`: {Code: "server_error", Message: "The GPU is on fire"},
		`{"error":{"message":"Wait a bit","code":429}}`:                                {Status: 429, Message: "Wait a bit"},
		`{"error":"broken"}`: {Message: "broken"},
	} {
		var s openai.ChatStream
		_, err := s.Add([]byte(event))
		if e, ok := err.(*llm.EndpointError); !ok || *e != want {
			t.Errorf("%s: %v", event, err)
		}
	}
}

func TestResponsesAnswers(t *testing.T) {
	name := convert.ToolNames(dotted.Tools, 64, "").Of("a.b")
	output := `[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"enc"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"first"},{"type":"output_text","text":"second"}]},
		{"type":"function_call","id":"fc_1","call_id":"c1","name":"` + name + `","arguments":"{\"x\":1}"},
		{"type":"function_call","id":"fc_2","call_id":"c2","name":"g","arguments":"{\"y\":\"cut\"}"}]`
	output = strings.ReplaceAll(strings.ReplaceAll(output, "\n", ""), "\t", "")
	done := `{"model":"x","status":"completed","output":` + output + `,"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12,"input_tokens_details":{"cached_tokens":1},"output_tokens_details":{"reasoning_tokens":2}}}`
	want := `{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"rs_1","summary":[{"index":0,"text":"one"},{"index":1,"text":"two"}],"encrypted_content":"enc"},
		{"type":"text","text":"first"},{"type":"text","text":"second"}],` + twoCalls + `}`
	s := openai.ResponsesStream{Meta: dotted}
	a, deltas := readStream(t, `
		{"type":"response.created","response":{"status":"in_progress"}}
		{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}
		{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"one"}
		{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1}
		{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"two"}
		{"type":"response.output_text.delta","output_index":1,"delta":"first"}
		{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"`+name+`"}}
		{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"x\":1}"}
		{"type":"response.completed","response":`+done+`}`, &s)
	checkAnswer(t, a, llm.StopCalls, want)
	if a.Usage != (chat.Usage{InputTokens: 9, OutputTokens: 3, CacheReadTokens: 1, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}
	if wantDeltas := "thinking(one)thinking(\n\n)thinking(two)text(first)call(c1)call(c1{\"x\":1})"; deltas != wantDeltas {
		t.Errorf("deltas %s", deltas)
	}

	// Cut off: the answer contains the complete items.
	s = openai.ResponsesStream{Meta: dotted}
	a, _ = readStream(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"half"}]}}`, &s)
	checkAnswer(t, a, llm.StopFailure, `{"role":"assistant","model":"m","content":[{"type":"text","text":"half"}]}`)

	// An index that is not valid is ignored.
	s = openai.ResponsesStream{}
	if _, err := s.Add([]byte(`{"type":"response.output_item.done","output_index":-1,"item":{"type":"message"}}`)); err != nil {
		t.Error(err)
	}

	for _, event := range []string{
		`{"type":"error","code":"rate_limit","message":"slow down"}`,
		`{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit","message":"slow down"}}}`,
		`{"type":"error","error":{"code":"rate_limit","message":"slow down"}}`,
	} {
		_, err := s.Add([]byte(event))
		if e, ok := err.(*llm.EndpointError); !ok || *e != (llm.EndpointError{Code: "rate_limit", Message: "slow down"}) {
			t.Errorf("%s: %v", event, err)
		}
	}
	s = openai.ResponsesStream{}
	a, _ = readStream(t, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]}}`, &s)
	if a.Stop != llm.StopLength {
		t.Errorf("stop %v", a.Stop)
	}
}
