package llmtest

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
)

// Stream reads a streamed answer.
type Stream interface {
	Add(event []byte) ([]llm.Delta, error)
	Answer() (llm.Answer, error)
}

// Read reads the events of a stream, one per line. It returns the answer, and the
// deltas as text.
func Read(t *testing.T, lines string, s Stream) (llm.Answer, string) {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		deltas, err := s.Add([]byte(line))
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		for _, d := range deltas {
			text.WriteString(string(d.Kind) + "(" + d.CallID + d.Text + ")")
		}
	}
	a, err := s.Answer()
	if err != nil {
		t.Fatal(err)
	}
	return a, text.String()
}

// Check compares an answer with the JSON of its message and its stop reason.
func Check(t *testing.T, a llm.Answer, stop llm.Stop, message string) {
	t.Helper()
	EqualJSON(t, []byte(message), a.Message.AppendJSON(nil))
	if a.Stop != stop {
		t.Errorf("stop %q, want %q", a.Stop, stop)
	}
}

// TwoCalls is the JSON of the calls in the test answers.
const TwoCalls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut\"}"}}]`

// CutCalls is TwoCalls with a second call that was cut off and is not completed.
const CutCalls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut"}}]`

// Dotted is the Meta for the test answers: one tool has a name that some providers do
// not accept.
var Dotted = llm.Meta{Model: "m", Tools: []llm.ToolSpec{{Name: "a.b"}, {Name: "g"}}}
