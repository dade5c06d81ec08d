package llm_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
)

// stream reads a streamed answer.
type stream interface {
	Add(event []byte) ([]llm.Delta, error)
	Answer() (*llm.Answer, error)
}

// readStream reads the events of a stream, one per line. It returns the answer, and the
// deltas as text.
func readStream(t *testing.T, lines string, s stream) (*llm.Answer, string) {
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

// checkAnswer compares an answer with the JSON of its message and its stop reason.
func checkAnswer(t *testing.T, a *llm.Answer, stop llm.Stop, message string) {
	t.Helper()
	equalJSON(t, []byte(message), a.Message.AppendJSON(nil))
	if a.Stop != stop {
		t.Errorf("stop %q, want %q", a.Stop, stop)
	}
}

// twoCalls is the JSON of the calls in the test answers.
const twoCalls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut\"}"}}]`

// cutCalls is twoCalls with a second call that was cut off and is not completed.
const cutCalls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut"}}]`

// dotted is the Meta for the test answers: one tool has a name that some providers do
// not accept.
var dotted = llm.Meta{Model: "m", Tools: []llm.ToolSpec{{Name: "a.b"}, {Name: "g"}}}

// equalJSON fails the test if two JSON texts are not equivalent.
func equalJSON(t testing.TB, want, got []byte) {
	t.Helper()
	var w, g any
	for b, into := range map[*[]byte]*any{&want: &w, &got: &g} {
		d := json.NewDecoder(bytes.NewReader(*b))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			t.Fatalf("%v in %s", err, *b)
		}
	}
	if !reflect.DeepEqual(w, g) {
		t.Fatalf("changed\n got %s\nwant %s", got, want)
	}
}

// decodeMessages reads an array of messages.
func decodeMessages(t testing.TB, b []byte) (ms []llm.Message) {
	t.Helper()
	if err := json.Unmarshal(b, &ms); err != nil {
		t.Fatal(err)
	}
	return ms
}
