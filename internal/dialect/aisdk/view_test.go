package aisdk

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// Together the events of a turn are the chunks of its response, except the pieces of text.
func TestEventsAreShownAsChunks(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.say("c1", "m1", `/tool weather {"city":"Berlin"}`)
	var types []string
	for _, e := range s.Events("c1") {
		v, err := s.dialect.As(t.Context(), e.Fact())
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range v.([]json.RawMessage) {
			var c struct{ Type, Role string }
			if err := json.Unmarshal(raw, &c); err != nil {
				t.Fatal(err)
			}
			if _, ok := e.Body.(chat.UserMessage); ok != (c.Role == roleUser) {
				t.Errorf("%s: %s", e.Type, raw)
			}
			if c.Role == "" && (c.Type != chunkTextDelta || len(types) == 0 || types[len(types)-1] != chunkTextDelta) {
				types = append(types, c.Type)
			}
		}
	}
	var want []string
	for _, typ := range got.types() {
		if typ != chunkTextDelta || want[len(want)-1] != chunkTextDelta {
			want = append(want, typ)
		}
	}
	if strings.Join(types, " ") != strings.Join(want, " ") {
		t.Errorf("the events give %v, the response has %v", types, want)
	}
}
