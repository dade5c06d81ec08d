package native

import (
	"testing"

	"github.com/parley-hq/parley/internal/json"
)

func TestOpenPromptsOfAllSessionsAreListed(t *testing.T) {
	w := newTestServer(t, nil)
	ask := func(session, request, text string) {
		w.must("root", "POST", "/parley/v1/sessions/"+session+"/events",
			`{"type":"agent.input_request","payload":{"request_id":"`+request+`","input_type":"text","text":"`+text+`"}}`)
	}
	w.must("alice", "POST", "/parley/v1/sessions", `{"id":"quiet","agent":"none"}`)
	w.must("alice", "POST", "/parley/v1/sessions", `{"id":"one","agent":"none","title":"First"}`)
	w.must("alice", "POST", "/parley/v1/sessions", `{"id":"two","agent":"none"}`)
	ask("one", "r1", "How?")
	ask("one", "r2", "When?")
	ask("two", "r3", "Why?")

	list := func(as, query string) promptsPage {
		t.Helper()
		var page promptsPage
		if err := json.Unmarshal([]byte(w.must(as, "GET", "/parley/v1/prompts"+query, "")), &page); err != nil {
			t.Fatal(err)
		}
		return page
	}
	page := list("alice", "")
	if len(page.Sessions) != 2 || page.Sessions[0].Session.Title != "First" || page.Sessions[1].Session.ID != "two" || page.Next != "" || page.ServerNow == 0 {
		t.Fatalf("%+v", page)
	}
	if p := page.Sessions[0].Prompts; len(p) != 2 || p[0].RequestID != "r1" || p[1].Input == nil || p[1].Input.Text != "When?" {
		t.Errorf("%+v", p)
	}

	first := list("alice", "?limit=1")
	if second := list("alice", "?limit=1&cursor="+first.Next); first.Next == "" || len(second.Sessions) != 1 || second.Sessions[0].Session.ID != "two" {
		t.Errorf("pages: %+v, %+v", first, second)
	}

	w.must("alice", "POST", "/parley/v1/sessions/two/prompts/r3/answer", `{"text":"Because."}`)
	if page := list("alice", ""); len(page.Sessions) != 1 || page.Sessions[0].Session.ID != "one" {
		t.Errorf("after an answer: %+v", page)
	}

	// Another user sees those of a session in which they may answer, and not those of one that they may only read.
	if page := list("bob", ""); len(page.Sessions) != 0 {
		t.Errorf("a stranger sees %+v", page)
	}
	for role, n := range map[string]int{"viewer": 0, "answerer": 1} {
		w.must("alice", "PATCH", "/parley/v1/sessions/one", `{"members":[{"actor":{"kind":"user","id":"bob"},"role":"`+role+`"}]}`)
		if page := list("bob", ""); len(page.Sessions) != n {
			t.Errorf("a %s sees %+v", role, page)
		}
	}
}
