package letta

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// Refusals say what is wrong.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	long := strings.Repeat("x", 800<<10)
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/v1/agents/" + a + "/messages", message(long, ""), http.StatusRequestEntityTooLarge, "a message has at most 768 KiB"},
		{"POST", "/v1/agents/" + a + "/messages", `{"messages":[{"role":"system","content":"` + long + `"},{"role":"user","content":"x"}]}`, http.StatusRequestEntityTooLarge, "a message has at most 768 KiB"},
		{"GET", "/v1/runs/?statuses=completed&statuses=done", "", http.StatusUnprocessableEntity, `statuses="done": it must be one of`},
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

// The last frame of a stream says whether the client can come back.
func TestLastFrameOfABrokenStream(t *testing.T) {
	f := &follower{run: &run{Run: stream.Run{ID: "run-1"}}}
	gone := f.broken(t.Context(), chat.Errorf(chat.Gone, "it was erased"))
	if gone.Type != "stream_task_cancelled" || strings.Contains(gone.Message, "starting_after") {
		t.Errorf("%+v", gone)
	}
	if later := f.broken(t.Context(), chat.Errorf(chat.Unavailable, "in a moment")); later.Type != "stream_incomplete" {
		t.Errorf("%+v", later)
	}
}
