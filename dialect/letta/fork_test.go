package letta

import (
	"net/http"
	"slices"
	"testing"
)

// contents are what the messages of a list say.
func contents(w *world, path string) (out []any) {
	w.t.Helper()
	for _, m := range get[[]shownMessage](w, "GET", path, "") {
		out = append(out, m.Content)
	}
	return out
}

func TestFork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	a := w.agent("")
	for _, text := range []string{"one", "two"} {
		w.say(a, text)
	}
	listed := get[[]shownMessage](w, "GET", "/v1/agents/"+a+"/messages?order=asc", "")
	all := get[object](w, "POST", "/v1/conversations/default/fork?agent_id="+a, "")
	part := get[object](w, "POST", "/v1/conversations/"+a+"/fork?hidden=true&message_id="+listed[1].ID, "{}")
	path := func(c object) string { return "/v1/conversations/" + c["id"].(string) + "/messages?order=asc" }
	if got := contents(w, path(all)); !slices.Equal(got, []any{"one", "You said: one", "two", "You said: two"}) {
		t.Errorf("all: %v", got)
	}
	if got := contents(w, path(part)); !slices.Equal(got, []any{"one", "You said: one"}) {
		t.Errorf("part: %v", got)
	}
	if all["agent_id"] != a || part["agent_id"] != a {
		t.Errorf("%v %v", all, part)
	}
	// They go their own ways, and go with the agent.
	w.open("/v1/conversations/"+part["id"].(string)+"/messages", message("three", "")).rest()
	if got := contents(w, path(part)); !slices.Equal(got, []any{"one", "You said: one", "three", "You said: three"}) {
		t.Errorf("part: %v", got)
	}
	if got := contents(w, "/v1/agents/"+a+"/messages?conversation_id=default"); len(got) != 4 {
		t.Errorf("home: %v", got)
	}
	if list := get[[]object](w, "GET", "/v1/conversations/?agent_id="+a, ""); len(list) != 1 || list[0]["id"] != all["id"] {
		t.Errorf("the hidden one is listed: %v", list)
	}
	if code, body := w.do("POST", "/v1/conversations/"+a+"/fork?message_id=message-00000000-0000-4000-8000-000000000000", "{}"); code != http.StatusNotFound {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.do("DELETE", "/v1/agents/"+a, ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for _, c := range []object{all, part} {
		if code, _ := w.do("GET", path(c), ""); code != http.StatusNotFound && code != http.StatusGone {
			t.Errorf("a fork outlives its agent: %d", code)
		}
	}
}

func TestMessagesOfAllAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{secured: true})
	w.as = "alice"
	w.say(w.agent(""), "one")
	b := w.agent("")
	w.say(b, "two")
	if got := contents(w, "/v1/messages/"); !slices.Equal(got, []any{"You said: two", "two", "You said: one", "one"}) {
		t.Errorf("%v", got)
	}
	if got := contents(w, "/v1/messages/?order=asc&limit=3"); !slices.Equal(got, []any{"one", "You said: one", "two"}) {
		t.Errorf("%v", got)
	}
	if got := contents(w, "/v1/messages/?agent_id="+b); !slices.Equal(got, []any{"You said: two", "two"}) {
		t.Errorf("%v", got)
	}
	w.as = "bob"
	if got := contents(w, "/v1/messages/"); len(got) != 0 {
		t.Errorf("bob sees %v", got)
	}
}
