package vertesia

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// vectors are inputs with the results of the shipped package. The conformance test
// checks the package itself against the same file.
type vectors struct {
	Parse     []struct{ Input, Want json.RawMessage }
	Refused   []struct{ Input json.RawMessage }
	ToCompact []struct{ Input, Want json.RawMessage }
}

func load(t *testing.T) (v vectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/messages.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// sameMessage compares a message with the expected one, of which unknown keys and the spelling
// of the type do not count.
func sameMessage(t *testing.T, what string, input json.RawMessage, got compactMessage, want json.RawMessage) {
	t.Helper()
	var w compactMessage
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(w)
	if string(a) != string(b) {
		t.Errorf("%s(%s)\n got %s\nwant %s", what, input, a, b)
	}
}

func TestMessagesAreReadAsByTheShippedPackage(t *testing.T) {
	v := load(t)
	for _, c := range v.Parse {
		got, _, err := parseMessage(c.Input)
		if err != nil {
			t.Errorf("parse(%s): %v", c.Input, err)
			continue
		}
		sameMessage(t, "parse", c.Input, got, c.Want)
	}
	for _, c := range v.Refused {
		// A posted message without a type is an update here.
		if got, older, err := parseMessage(c.Input); err == nil && (older == nil || older.Type != nil) {
			t.Errorf("parse(%s) gives %+v", c.Input, got)
		}
	}
	for _, c := range v.ToCompact {
		var m olderMessage
		if err := json.Unmarshal(c.Input, &m); err != nil {
			t.Errorf("%s: %v", c.Input, err)
			continue
		}
		sameMessage(t, "toCompactMessage", c.Input, m.compact(), c.Want)
	}
	if len(v.Parse) < 80 || len(v.ToCompact) == 0 {
		t.Errorf("only %d and %d vectors", len(v.Parse), len(v.ToCompact))
	}
}

func TestTimestampsKeepTheirMicroseconds(t *testing.T) {
	for at, want := range map[int64]string{
		1794704021301000: "1794704021301", 1794704021301100: "1794704021301.1", 1794704021301120: "1794704021301.12",
		1794704021301123: "1794704021301.123", 1794704021301003: "1794704021301.003", 1794704021301030: "1794704021301.03",
	} {
		if got := string(appendTS(nil, chat.At(at))); got != want {
			t.Errorf("%d is written %s, want %s", at, got, want)
		}
	}
}
