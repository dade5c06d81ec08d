package llm_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/gemini"
)

func TestGeminiAnswers(t *testing.T) {
	want := `{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"hm"},{"type":"text","text":"hi"},
		{"type":"tool_call","id":"c1","name":"a.b","input":{"x":1},"signature":"c2ln"},{"type":"tool_call","id":"c2","name":"g","input":{"y":"cut"}}],` + twoCalls + `}`
	s := gemini.Stream{Meta: dotted}
	a, deltas := readStream(t, strings.Join([]string{
		`{"responseId":"r1","candidates":[{"content":{"role":"model","parts":[{"text":"h","thought":true}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"m","thought":true},{"text":"h"}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"i"}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"a.b","args":{"x":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"c2","name":"g","args":{"y":"cut"}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":1}}`,
	}, "\n"), &s)
	checkAnswer(t, a, llm.StopCalls, want)
	if want := `thinking(h)thinking(m)text(h)text(i)call(c1{"x":1})call(c2{"y":"cut"})`; deltas != want {
		t.Errorf("deltas %s", deltas)
	}
	if a.Usage != (chat.Usage{InputTokens: 8, OutputTokens: 5, CacheReadTokens: 1, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	// The next request to the same model contains every signature.
	contents := gemini.Contents(llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.User, Content: llm.Texts("q")}, a.Message}}).Contents
	var signed []string
	for _, p := range contents[1].Parts {
		if p.FunctionCall != nil {
			signed = append(signed, p.FunctionCall.Name+" "+string(p.ThoughtSignature))
		}
	}
	if !reflect.DeepEqual(signed, []string{"a.b sig", "g "}) {
		t.Errorf("signatures %q", signed)
	}

	// Calls without ids get deterministic ids.
	read := func(event string) (*llm.Answer, error) {
		var s gemini.Stream
		if _, err := s.Add([]byte(event)); err != nil || !s.Ended() {
			t.Fatal(err)
		}
		return s.Answer()
	}
	const nameless = `{"responseId":"r","candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}`
	one, err := read(nameless)
	two, _ := read(nameless)
	if err != nil || one.Message.ToolCalls[0].ID == one.Message.ToolCalls[1].ID || one.Message.ToolCalls[0].ID != two.Message.ToolCalls[0].ID {
		t.Errorf("%v %+v %+v", err, one.Message.ToolCalls, two.Message.ToolCalls)
	}
	if a, err := read(`{"promptFeedback":{"blockReason":"SAFETY"}}`); chat.CodeOf(err) != chat.Unavailable || a.Stop != llm.StopFilter {
		t.Errorf("blocked: %v %v", a.Stop, err)
	}
}
