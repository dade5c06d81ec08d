package letta

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// contents returns the content of the messages of a list.
func contents(w *testServer, path string) (out []any) {
	w.t.Helper()
	for _, m := range get[[]frame](w, "GET", path, "") {
		out = append(out, m.Content)
	}
	return out
}

func TestFork(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	for _, text := range []string{"one", "two"} {
		w.say(a, text)
	}
	listed := get[[]frame](w, "GET", "/v1/agents/"+a+"/messages?order=asc", "")
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
	// They go their own ways, and those of the agent's owner go with it.
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

// Conversations that others began with an agent stay and are answered after the agent is deleted.
func TestConversationsOfOthersStayWhenAnAgentIsDeleted(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{secured: true})
	w.user = "alice"
	a := w.agent("")
	w.say(a, "shared")
	hers := get[object](w, "POST", "/v1/conversations/?agent_id="+a, "{}")["id"].(string)
	members := []chat.Member{{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Role: chat.Answerer}}
	if _, err := w.Sessions.Update(t.Context(), chat.Trusted, chat.SessionID(a), chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	w.user = "bob"
	fork := get[object](w, "POST", "/v1/conversations/default/fork?agent_id="+a, "")["id"].(string)
	own := get[object](w, "POST", "/v1/conversations/?agent_id="+a, "{}")["id"].(string)
	path := func(id string) string { return "/v1/conversations/" + id + "/messages" }
	w.open(path(own), message("mine", "")).rest()

	w.user = "alice"
	if code, body := w.do("DELETE", "/v1/agents/"+a, ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for range 2 { // also after a restart
		for _, id := range []string{a, hers} {
			if code, _ := w.do("GET", path(id), ""); code != http.StatusNotFound && code != http.StatusGone {
				t.Errorf("%s is still there: %d", id, code)
			}
		}
		w.user = "bob"
		if code, _ := w.do("GET", "/v1/agents/"+a, ""); code != http.StatusNotFound {
			t.Errorf("the agent is still there: %d", code)
		}
		if list := get[[]object](w, "GET", "/v1/conversations/?agent_id="+a, ""); len(list) != 2 {
			t.Errorf("bob has %v", list)
		}
		if got := contents(w, path(own)+"?order=asc"); len(got) < 2 || got[0] != "mine" {
			t.Errorf("his own: %v", got)
		}
		if got := contents(w, path(fork)+"?order=asc"); len(got) < 2 || got[0] != "shared" {
			t.Errorf("his fork: %v", got)
		}
		if got := textOf(w.open(path(fork), message("still there?", "")).rest()); got != "You said: still there?" {
			t.Errorf("his fork answers %q", got)
		}
		w = w.restart()
		w.user = "alice"
	}
	w.user = "bob"
	for _, id := range []string{own, fork} {
		if code, body := w.do("DELETE", "/v1/conversations/"+id, ""); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	}
}

func TestMessagesOfAllAgents(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{secured: true})
	w.user = "alice"
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
	w.user = "bob"
	if got := contents(w, "/v1/messages/"); len(got) != 0 {
		t.Errorf("bob sees %v", got)
	}
}

// A fork has the times of the original's events. Lists over an agent's conversations still page without gaps.
func TestListsPageOverForks(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	for _, text := range []string{"one", "two", "three"} {
		w.say(a, text)
	}
	for range 2 {
		get[object](w, "POST", "/v1/conversations/"+a+"/fork", "{}")
	}
	ids := func(path string) (out []string) {
		for _, o := range get[[]object](w, "GET", path, "") {
			out = append(out, o["id"].(string))
		}
		return out
	}
	for _, c := range []struct {
		path string
		n    int
		// the next page after the last entry, or before the first
		after, before string
	}{
		{"/v1/agents/" + a + "/messages?", 18, "order=asc", "order=desc"},
		{"/v1/messages/?agent_id=" + a, 18, "order=asc", ""},
		{"/v1/runs/?agent_id=" + a, 9, "order=asc", "order=asc"},
		{"/v1/runs/?agent_id=" + a, 9, "order=desc", "order=desc"},
		{"/v1/steps/?agent_id=" + a, 9, "order=asc", ""},
		{"/v1/steps/?agent_id=" + a, 9, "order=desc", ""},
	} {
		whole := ids(c.path + "&limit=100&" + c.after)
		if len(whole) != c.n {
			t.Fatalf("%s: %d of %d", c.path, len(whole), c.n)
		}
		for limit := 1; limit <= 5; limit++ {
			query := fmt.Sprint(c.path, "&limit=", limit, "&")
			var there, back []string
			for page := ids(query + c.after); len(page) > 0 && len(there) <= c.n; page = ids(query + c.after + "&after=" + there[len(there)-1]) {
				there = append(there, page...)
			}
			if !slices.Equal(there, whole) {
				t.Errorf("%s, %s, %d at once: %d of %d", c.path, c.after, limit, len(there), c.n)
			}
			if c.before == "" {
				continue
			}
			last := whole[len(whole)-1]
			for page := ids(query + c.before + "&before=" + last); len(page) > 0 && len(back) <= c.n; page = ids(query + c.before + "&before=" + back[0]) {
				back = append(page, back...)
			}
			if !slices.Equal(back, whole[:len(whole)-1]) {
				t.Errorf("%s, %s, %d at once, backwards: %d of %d", c.path, c.before, limit, len(back), c.n-1)
			}
		}
	}
}
