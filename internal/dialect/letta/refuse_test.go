package letta

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// What cannot be taken is refused in words that a client's user understands.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	a := w.agent("")
	long := strings.Repeat("x", 800<<10)
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/v1/agents/" + a + "/messages", message(long, ""), http.StatusRequestEntityTooLarge, "a message has at most 768 KiB"},
		{"POST", "/v1/agents/" + a + "/messages", `{"messages":[{"role":"system","content":"` + long + `"},{"role":"user","content":"x"}]}`, http.StatusRequestEntityTooLarge, "a message has at most 768 KiB"},
		{"GET", "/v1/runs/?statuses=completed&statuses=done", "", http.StatusUnprocessableEntity, `statuses="done" is not one of`},
	} {
		if code, body := w.do(c.method, c.path, c.body); code != c.code || !strings.HasPrefix(detailOf(body), c.says) {
			t.Errorf("%s: %d %.200s", c.path, code, body)
		}
	}
	if got := contents(w, "/v1/agents/"+a+"/messages"); len(got) != 0 {
		t.Errorf("something was kept: %v", got)
	}
	get[[]object](w, "GET", "/v1/runs/?statuses=completed&statuses=cancelled", "")
}

// Who follows a run that is deleted is not told to come back.
func TestDeletedRunsAreNotGoneBackTo(t *testing.T) {
	f := &follower{run: &run{id: "run-1"}}
	gone := string(f.appendBroken(nil, chat.Errorf(chat.Gone, "it was erased")))
	if !strings.Contains(gone, `"error_type":"stream_task_cancelled"`) || strings.Contains(gone, "starting_after") {
		t.Error(gone)
	}
	if later := string(f.appendBroken(nil, chat.Errorf(chat.Unavailable, "in a moment"))); !strings.Contains(later, `"error_type":"stream_incomplete"`) {
		t.Error(later)
	}
}
