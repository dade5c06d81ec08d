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

// Read reads the events of a stream, one a line. It returns the answer, and the
// deltas as a text.
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

// Check compares an answer with the JSON of its message and with why it stopped.
func Check(t *testing.T, a llm.Answer, stop llm.Stop, message string) {
	t.Helper()
	EqualJSON(t, []byte(message), a.Message.AppendJSON(nil))
	if a.Stop != stop {
		t.Errorf("stop %q, want %q", a.Stop, stop)
	}
}

// TwoCalls is the calls of the answers in the tests, as a message has them.
const TwoCalls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut\"}"}}]`

// CutCalls is TwoCalls of a model that broke the second one off: nothing is added to it.
const CutCalls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut"}}]`

// Dotted is what those answers are read with: one tool has a name that not every
// provider takes.
var Dotted = llm.Meta{Model: "m", Tools: []llm.ToolSpec{{Name: "a.b"}, {Name: "g"}}}
