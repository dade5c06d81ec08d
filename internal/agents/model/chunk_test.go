package model

import (
	"encoding/json"
	"testing"

	sdk "github.com/openai/openai-go/v3"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/openai"
)

// Whatever a server sends, a chunk says what the SDK says of it.
func TestChunksAreReadAsTheSDKReadsThem(t *testing.T) {
	for _, text := range []string{
		`{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"a \u00e9\n"},"finish_reason":null}]}`,
		`{"choices":[{"delta":{"role":"assistant","content":"","refusal":null,"tool_calls":null},"logprobs":null}],"usage":null}`,
		`{"model":"m","choices":[{"index":0,"delta":{"content":"end"},"finish_reason":"stop"}]}`,
		`{"model":"m","choices":[{"index":1,"delta":{"content":"another"}}]}`,
		`{"model":"m","choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
		`{"model":"m","choices":[{"index":0,"delta":{"reasoning_content":"hm","content":null}}]}`,
		`{"model":"m","choices":[{"index":0,"delta":{"reasoning":"hm","content":"so"}}]}`,
		`{"model":"m","choices":[{"index":0,"delta":{"refusal":"no"}}]}`,
		`{"model":"m","choices":[{"index":0,"delta":{"content":"","tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}`,
		`{"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`,
		`{"model":"m","choices":[{"index":0,"delta":{"content":"and"}}],"usage":{"prompt_tokens":3,"total_tokens":5}}`,
		`{"model":"m","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"parts"}]}}]}`,
		`{"model":"m","choices":null}`,
		`{"choices":[{"index":"0","delta":{"content":7}}]}`,
		`{}`,
	} {
		var ours chunk
		var theirs sdk.ChatCompletionChunk
		problem, wanted := json.Unmarshal([]byte(text), &ours), json.Unmarshal([]byte(text), &theirs)
		if (problem == nil) != (wanted == nil) {
			t.Errorf("%s: %v, not %v", text, problem, wanted)
		}
		got, want := said(ours.ChatCompletionChunk), said(theirs)
		if got != want {
			t.Errorf("%s\n is %s\nnot %s", text, got, want)
		}
	}
}

// said is what becomes of an answer that is one chunk.
func said(c sdk.ChatCompletionChunk) string {
	s := openai.ChatStream{Meta: llm.Meta{}}
	deltas := s.Add(c)
	a, err := s.Answer()
	b, _ := json.Marshal([]any{deltas, a, err != nil})
	return string(b)
}
