package llm_test

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/anthropic"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

func TestAnthropicAnswers(t *testing.T) {
	name := convert.ToolNames(dotted.Tools, 128, "").Of("a.b")
	want := `{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"hm","signature":"sig"},{"type":"redacted_reasoning","data":"xx"},{"type":"text","text":"hi"}],` + twoCalls + `}`
	s := anthropic.Stream{Meta: dotted}
	a, deltas := readStream(t, `
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
		{"type":"message_stop"}`, &s)
	checkAnswer(t, a, llm.StopCalls, strings.Replace(want, twoCalls, cutCalls, 1))
	if want := `thinking(hm)text(h)text(i)call(c1)call(c1{"x")call(c1:1})call(c2)call(c2{"y":"cut)`; deltas != want {
		t.Errorf("deltas %s", deltas)
	}
	if a.Usage != (chat.Usage{InputTokens: 10, OutputTokens: 7, CacheReadTokens: 3, CacheCreationTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}
	for reason, stop := range map[string]llm.Stop{"end_turn": llm.StopEnd, "max_tokens": llm.StopLength, "stop_sequence": llm.StopEnd, "refusal": llm.StopFilter, "strange": llm.StopFailure} {
		var s anthropic.Stream
		a, _ := readStream(t, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}
			{"type":"message_delta","delta":{"stop_reason":"`+reason+`"}}`, &s)
		if a.Stop != stop {
			t.Errorf("%s: %s", reason, a.Stop)
		}
	}

	var failing anthropic.Stream
	_, err := failing.Add([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
	if e, ok := err.(*llm.EndpointError); !ok || e.Code != "overloaded_error" || e.Message != "Overloaded" {
		t.Errorf("an error in the stream: %v", err)
	}
}
