package openai

import (
	"testing"

	"github.com/parley-hq/parley/internal/json"
)

// A chunk that is read fast is read as any other chunk.
func FuzzOnlyContent(f *testing.F) {
	for _, chunk := range []string{
		`{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"a "},"finish_reason":null}]}`,
		`{"choices":[{"delta":{"role":"assistant","content":"b","refusal":null,"tool_calls":null},"logprobs":null}],"usage":null}`,
		`{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
		`{"choices":[{"delta":{"content":"a"}},7]}`,
		`{"choices":[{"delta":{"content":"a","content":"b"}}]}`,
		`{"choices":[{"delta":{"content":"a"},"delta":{"content":"b"}}]}`,
		`{"choices":[{"delta":{"content":"a"}}],"choices":[{"delta":{"content":"b"}}]}`,
		`{"choices":[{"delta":{"content":"a","re\u0061soning":"b"}}]}`,
		`{"choices":[{"delta":{"content":"a","tool_calls":[{"id":"x"}]}}]}`,
		`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`,
		`{"choices":[{"delta":{"content":"a"},"index":1}]}`,
		`{"choices":[{"delta":{"content":"a"}}],"usage":{"total_tokens":3}}`,
		`{"choices":[{"delta":{"content":"a"}}],"error":{"message":"x"}}`,
		`{"choices":[{"delta":{"content":"a"}}] } x`,
	} {
		f.Add([]byte(chunk))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		content, ok := onlyContent(b)
		var c Chunk
		if !ok || json.Unmarshal(b, &c) != nil {
			return
		}
		if len(c.Choices) != 1 || c.Error != nil && string(c.Error) != "null" || c.Usage != (usage{}) {
			t.Fatalf("%s has more than a text", b)
		}
		choice := &c.Choices[0]
		d := &choice.Delta
		if string(d.Content) != content || choice.Index != 0 || choice.FinishReason != "" || d.Refusal != "" || d.ReasoningContent != "" || d.Reasoning != "" || len(d.ToolCalls) > 0 {
			t.Errorf("%s was read as %q", b, content)
		}
	})
}

func BenchmarkChatStream(b *testing.B) {
	chunk := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`)
	b.ReportAllocs()
	for b.Loop() {
		var s ChatStream
		for range 100 {
			if _, err := s.Add(chunk); err != nil {
				b.Fatal(err)
			}
		}
	}
}
