package nemo

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestFeedbackIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	frames := c.readTurn()
	trace := frames[len(frames)-1].Content.Trace
	if code, body, _ := w.Call("POST", "/feedback", fmt.Sprintf(`{"observability_trace_id":%q,"reaction_type":"👍"}`, trace)); code != 200 || !strings.Contains(body, `"message":`) {
		t.Errorf("%d %s", code, body)
	}
	w.Call("POST", "/chat", chatBody("hi"), "Conversation-Id", "c2", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if code, body, _ := w.Call("POST", "/feedback", `{"observability_trace_id":"0af7651916cd43dd8448eb211c80319c","comment":"nice"}`); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	for id, want := range map[chat.SessionID]string{"c1": `"reaction":"👍"`, "c2": `"comment":"nice"`} {
		facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, id, chat.Range{Types: []string{feedbackType}})
		if err != nil || len(facts) != 1 || !strings.Contains(string(facts[0].JSON), want) {
			t.Errorf("%s: %d events, want %s (%v)", id, len(facts), want, err)
		}
	}
	for body, want := range map[string]int{
		`{"observability_trace_id":"x"}`:                                               422,
		`{"reaction_type":"👍"}`:                                                        422,
		`{"observability_trace_id":"x","comment":"?"}`:                                 404,
		`{"observability_trace_id":"x","comment":"` + strings.Repeat("a", 1025) + `"}`: 422,
	} {
		if code, got, _ := w.Call("POST", "/feedback", body); code != want {
			t.Errorf("%s: %d %s", body, code, got)
		}
	}
}

// Put, get, replace, delete.
func TestStaticFiles(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	form := func(method, text string) (int, string) {
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		part, err := m.CreateFormFile("file", "x.txt")
		if err != nil {
			t.Fatal(err)
		}
		part.Write([]byte(text))
		m.Close()
		code, body, _ := w.Call(method, "/static/docs/x.txt", b.String(), "Content-Type", m.FormDataContentType())
		return code, body
	}
	if code, body := form("POST", "one"); code != 200 || body != `{"filename":"docs/x.txt"}` {
		t.Errorf("%d %s", code, body)
	}
	if code, body := form("POST", "two"); code != 409 {
		t.Errorf("there already: %d %s", code, body)
	}
	if code, body := form("PUT", "three"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	code, body, head := w.Call("GET", "/static/docs/x.txt", "")
	if code != 200 || body != "three" || head.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(head.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %s %v", code, body, head)
	}
	if code, _, _ := w.Call("DELETE", "/static/docs/x.txt", ""); code != 204 {
		t.Errorf("%d", code)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if code, _, _ := w.Call(method, "/static/docs/x.txt", ""); code != 404 {
			t.Errorf("%s: %d", method, code)
		}
	}
	if code, body, _ := w.Call("PUT", "/static/raw.bin", "raw", "Content-Type", "application/octet-stream"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}
