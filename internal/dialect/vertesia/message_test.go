package vertesia

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// vectors are inputs with what the shipped package makes of them; the
// conformance test holds the package itself against the same file.
type vectors struct {
	Parse   []struct{ Input, Want json.RawMessage }
	Refused []struct{ Input json.RawMessage }
	ToAgent []struct {
		Input, Want json.RawMessage
		Run         string
	}
	ToCompact []struct{ Input, Want json.RawMessage }
	Create    []struct {
		Type    Type
		Options struct {
			Message      string
			WorkstreamID string
			Details      json.RawMessage
			IsFinal      bool
			Timestamp    float64
		}
		Want json.RawMessage
	}
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

// same compares two JSON values.
func same(t *testing.T, what string, input json.RawMessage, got any, want json.RawMessage) {
	t.Helper()
	b, err := json.Marshal(got)
	if err != nil {
		t.Errorf("%s(%s): %v", what, input, err)
		return
	}
	var a, c any
	if json.Unmarshal(b, &a) != nil || json.Unmarshal(want, &c) != nil || !reflect.DeepEqual(a, c) {
		t.Errorf("%s(%s)\n got %s\nwant %s", what, input, b, want)
	}
}

func TestConversionsAreThoseOfTheShippedPackage(t *testing.T) {
	v := load(t)
	for _, c := range v.Parse {
		got, err := ParseMessage(c.Input)
		if err != nil {
			t.Errorf("parse(%s): %v", c.Input, err)
			continue
		}
		same(t, "parse", c.Input, got, c.Want)
	}
	for _, c := range v.Refused {
		if got, err := ParseMessage(c.Input); err == nil {
			t.Errorf("parse(%s) gives %+v", c.Input, got)
		}
	}
	for _, c := range v.ToAgent {
		m, err := ParseMessage(c.Input)
		if err != nil {
			t.Errorf("parse(%s): %v", c.Input, err)
			continue
		}
		same(t, "toAgentMessage", c.Input, ToAgentMessage(m, c.Run), c.Want)
	}
	for _, c := range v.ToCompact {
		var m AgentMessage
		if err := json.Unmarshal(c.Input, &m); err != nil {
			t.Errorf("%s: %v", c.Input, err)
			continue
		}
		same(t, "toCompactMessage", c.Input, ToCompactMessage(m), c.Want)
	}
	for _, c := range v.Create {
		o, _ := json.Marshal(c.Options)
		same(t, "createCompactMessage", o, CreateCompactMessage(c.Type, CompactOptions(c.Options)), c.Want)
	}
	if len(v.Parse) < 80 || len(v.ToAgent) < 80 || len(v.Create) < 50 {
		t.Errorf("only %d, %d and %d vectors", len(v.Parse), len(v.ToAgent), len(v.Create))
	}
}

func TestAChangedMessageIsWrittenAnew(t *testing.T) {
	m, err := ParseMessage([]byte(`{"t":3,"m":"as it came","x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	m.M = "changed"
	same(t, "marshal", nil, m, json.RawMessage(`{"t":3,"m":"changed"}`))
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
