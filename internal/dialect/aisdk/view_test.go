package aisdk

import (
	"encoding/json"
	"slices"
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

// The events of a workstream name no turn of the main line, but pages see them in one.
func TestEventsOfWorkstreamsAreShownAsChunks(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.say("c1", "m1", "/work 2 0")
	parts := func(chunks []map[string]any) (list []string) {
		for _, c := range chunks {
			if c["type"] == dataWorkstream {
				b, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, string(b))
			}
		}
		return list
	}
	var shown []map[string]any
	for _, e := range s.Events("c1") {
		v, err := s.dialect.As(t.Context(), e.Fact())
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range v.([]json.RawMessage) {
			var c map[string]any
			if err := json.Unmarshal(raw, &c); err != nil {
				t.Fatal(err)
			}
			shown = append(shown, c)
		}
	}
	if events, response := parts(shown), parts(got.chunks); !slices.Equal(events, response) {
		t.Errorf("the events give\n%s\nthe response has\n%s", strings.Join(events, "\n"), strings.Join(response, "\n"))
	}
}

// A page that has resumed a long message may wait for hours; the server does not keep the chunks that it has sent.
func TestSentChunksAreNotKept(t *testing.T) {
	s := newSelector(&target{whole: true})
	s.live = true
	for _, n := range []int{1, 1000, 1, 1} {
		for range n {
			s.out = append(s.out, chunk{Type: chunkTextDelta, Delta: "text"})
		}
		if got := s.ready(); len(got) != n || got[0].Delta != "text" || got[n-1].Delta != "text" {
			t.Fatalf("%d of %d chunks: %v", len(got), n, got)
		}
		if kept := cap(s.out) + cap(s.given); kept > 2*maxKept {
			t.Errorf("after %d chunks there is room for %d", n, kept)
		}
	}
}
