package aisdk

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/servertest"
)

func TestATurnIsAMessage(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.say("c1", "m1", "/stream 3 0")
	if got.words() != "tok1 tok2 tok3" || got.finish(t) != finishStop {
		t.Fatalf("%v", got.chunks)
	}
	types := slices.Compact(got.types())
	want := []string{chunkStart, chunkStartStep, chunkTextStart, chunkTextDelta, chunkTextEnd, chunkFinishStep, chunkFinish}
	if !slices.Equal(types, want) {
		t.Errorf("the chunks are %v", types)
	}
	if got.run != got.id(t) {
		t.Errorf("the run is %q, the message %q", got.run, got.id(t))
	}
}

func TestTheSameMessageIsSentOnce(t *testing.T) {
	servertest.EachPlace(t, func(t *testing.T, cluster func() *servertest.Cluster) {
		s := newTestServerIn(t, cluster(), nil)
		first := s.say("c1", "m1", "/echo hello")
		again := s.say("c1", "m1", "/echo hello")
		if fmt.Sprint(first.chunks) != fmt.Sprint(again.chunks) {
			t.Errorf("the second response is\n%v\nthe first\n%v", again.chunks, first.chunks)
		}
		tools := strings.Replace(userMessage("c1", "m1", "/echo hello"), `{"id"`, `{"system":"be brief","tools":{"clipboard":{}},"id"`, 1)
		if again := s.post(tools); fmt.Sprint(first.chunks) != fmt.Sprint(again.chunks) {
			t.Errorf("with other tools of the page: %d %s %v", again.status, again.text, again.chunks)
		}
		if n := len(s.Events("c1", "user.message")); n != 1 {
			t.Errorf("%d messages are stored", n)
		}
		if other := s.say("c1", "m1", "/echo another"); other.status != http.StatusConflict {
			t.Errorf("another text with the same id: %d %s", other.status, other.text)
		}
	})
}

func TestEveryIndexResumesARun(t *testing.T) {
	servertest.EachPlace(t, func(t *testing.T, cluster func() *servertest.Cluster) {
		s := newTestServerIn(t, cluster(), nil)
		whole := s.say("c1", "m1", "/stream 10 0")
		n := len(whole.chunks)
		for i := range n + 2 {
			rest := s.get(fmt.Sprintf("/api/chat/%s/stream?startIndex=%d", whole.run, i))
			if want := whole.chunks[min(i, n-1):]; fmt.Sprint(rest.chunks) != fmt.Sprint(want) {
				t.Errorf("from %d on: %v", i, rest.chunks)
			}
		}
		// A negative index gets the message from its beginning on. The client begins to count at the tail + 1 - 3.
		res := s.Send("GET", "/api/chat/"+whole.run+"/stream?startIndex=-3", "", s.header()...)
		tail := s.read(res, 0)
		if fmt.Sprint(tail.chunks) != fmt.Sprint(whole.chunks) || res.Header.Get("X-Workflow-Stream-Tail-Index") != "2" {
			t.Errorf("from -3 on: %v, the tail is %s", tail.chunks, res.Header.Get("X-Workflow-Stream-Tail-Index"))
		}
	})
}

// A page that counts chunks knows only streams with an end.
func TestAPageThatCountsChunksIsLoadedAgain(t *testing.T) {
	s := newTestServer(t, nil)
	whole := s.say("c1", "m1", "/echo hello")
	for _, index := range []string{"0", "-3"} {
		if got := s.get("/api/chat/c1/stream?startIndex=" + index); fmt.Sprint(got.chunks) != fmt.Sprint(whole.chunks) {
			t.Errorf("%s: %d %v", index, got.status, got.chunks)
		}
		if got := s.get("/api/chat/new/stream?startIndex=" + index); fmt.Sprint(got.types()) != "["+chunkFinish+"]" {
			t.Errorf("a new chat, %s: %d %v", index, got.status, got.chunks)
		}
	}
}

func TestNothingToResume(t *testing.T) {
	s := newTestServer(t, nil)
	s.say("c1", "m1", "/echo hello")
	for _, id := range []string{"c1", "new", "chat%201%2F%C3%BC"} {
		if got := s.get("/api/chat/" + id + "/stream"); got.status != http.StatusNoContent {
			t.Errorf("%s: %d", id, got.status)
		}
	}
}

func TestAResumeShowsTheWholeMessage(t *testing.T) {
	s := newTestServer(t, nil)
	const chatPath = "/api/chat/chat%201%2F%C3%BC"
	live := s.Send("POST", "/api/chat", userMessage("chat 1/ü", "m1", "/stream 100000 40"), s.header()...)
	first := s.read(live, 6) // and disconnects
	resumed := s.Send("GET", chatPath+"/stream", "", s.header()...)
	s.Call("POST", chatPath+"/stop", "")
	whole := s.read(resumed, 0)
	if len(whole.chunks) < 6 || fmt.Sprint(whole.chunks[:6]) != fmt.Sprint(first.chunks) {
		t.Errorf("%v\n%v", first.chunks, whole.chunks)
	}
	if whole.finish(t) != finishOther || !strings.HasPrefix(whole.words(), first.words()) {
		t.Errorf("the text is %q", whole.words())
	}
}

func TestStop(t *testing.T) {
	s := newTestServer(t, nil)
	live := s.Send("POST", "/api/chat", userMessage("c1", "m1", "/stream 10000 40"), s.header()...)
	s.Until("c1", "turn.started", 1)
	if status, body, _ := s.Call("POST", "/api/chat/c1/stop", ""); status != 200 || body != `{"stopped":true}` {
		t.Errorf("%d %s", status, body)
	}
	got := s.read(live, 0)
	got.find(t, chunkAbort)
	if got.finish(t) != finishOther {
		t.Errorf("%v", got.chunks)
	}
	if status, body, _ := s.Call("POST", "/api/chat/c1/stop", ""); status != 200 || body != `{"stopped":false}` {
		t.Errorf("%d %s", status, body)
	}
}

func TestAFailedTurn(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.say("c1", "m1", "/fail the disk is full")
	if text := got.find(t, chunkError)["errorText"]; !strings.Contains(fmt.Sprint(text), "the disk is full") || got.finish(t) != finishError {
		t.Errorf("%v", got.chunks)
	}
}

func TestEditAndRegenerateAreForks(t *testing.T) {
	s := newTestServer(t, nil)
	s.say("c1", "m1", "/echo one")
	s.say("c1", "m2", "/echo two")
	edit := s.post(`{"id":"c1","trigger":"submit-message","messageId":"m2","messages":[{"id":"m1","role":"user","parts":[]},{"id":"m2","role":"user","parts":[{"type":"text","text":"/echo three"}]}]}`)
	if edit.words() != "three" {
		t.Fatalf("%d %s %v", edit.status, edit.text, edit.chunks)
	}
	again := s.post(`{"id":"c1","trigger":"regenerate-message","messages":[{"id":"m1","role":"user","parts":[]},{"id":"m2","role":"user","parts":[{"type":"text","text":"not to be trusted"}]}]}`)
	if again.words() != "three" || again.id(t) == edit.id(t) {
		t.Fatalf("%d %s %v", again.status, again.text, again.chunks)
	}
	if same := s.post(`{"id":"c1","trigger":"submit-message","messageId":"m2","messages":[{"id":"m2","role":"user","parts":[{"type":"text","text":"/echo three"}]}]}`); fmt.Sprint(same.chunks) != fmt.Sprint(again.chunks) {
		t.Errorf("the same edit again: %v", same.chunks)
	}
	_, body, _ := s.Call("GET", "/api/chat/c1/messages", "")
	if strings.Contains(body, "two") || strings.Count(body, `"role":"user"`) != 2 {
		t.Errorf("the chat is %s", body)
	}
	if n := len(s.Events("c1", "user.message")); n != 2 {
		t.Errorf("the first session has %d messages", n)
	}
	n := 0
	for _, err := range s.Sessions.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("there are %d sessions", n)
	}
}

func TestAMessageThatWaitsGetsItsOwnTurn(t *testing.T) {
	s := newTestServer(t, nil)
	first := s.Send("POST", "/api/chat", userMessage("c1", "m1", "/stream 30 60"), s.header()...)
	s.Until("c1", "turn.started", 1)
	second := s.say("c1", "m2", "/echo second")
	if second.words() != "second" || !strings.HasPrefix(second.run, "e-") {
		t.Errorf("%s %v", second.run, second.chunks)
	}
	again := s.get("/api/chat/" + second.run + "/stream?startIndex=0")
	if fmt.Sprint(again.chunks) != fmt.Sprint(second.chunks) {
		t.Errorf("%v", again.chunks)
	}
	if got := s.read(first, 0); !strings.HasSuffix(got.words(), "tok30") {
		t.Errorf("%v", got.words())
	}
}

func TestWorkflowRequests(t *testing.T) {
	s := newTestServer(t, nil)
	body := `{"messages":[{"id":"first","role":"user","parts":[{"type":"text","text":"/echo one"}]}]}`
	got := s.read(s.Send("POST", "/api/chat", body, "Content-Type", "text/plain;charset=UTF-8"), 0)
	if got.words() != "one" || got.run == "" {
		t.Fatalf("%d %s", got.status, got.text)
	}
	body = `{"messages":[{"id":"first","role":"user","parts":[]},{"id":"x","role":"assistant","parts":[]},{"id":"third","role":"user","parts":[{"type":"text","text":"/echo two"}]}]}`
	if got := s.read(s.Send("POST", "/api/chat", body, "Content-Type", "text/plain;charset=UTF-8"), 0); got.words() != "two" {
		t.Fatalf("%d %s", got.status, got.text)
	}
	if n := len(s.Events("first", "user.message")); n != 2 {
		t.Errorf("the chat has %d messages", n)
	}
	foreign := s.Send("POST", "/api/chat", body, "Content-Type", "text/plain", "Origin", "https://evil.example")
	if got := s.read(foreign, 0); got.status != http.StatusForbidden {
		t.Errorf("another origin: %d", got.status)
	}
}

func TestBadRequestsWriteNothing(t *testing.T) {
	s := newTestServer(t, nil)
	parts := `{"type":"text","text":"x"}` + strings.Repeat(`,{"type":"text","text":"x"}`, maxParts)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"no JSON":        {`{`, 400},
		"no messages":    {`{"id":"c1","messages":[]}`, 400},
		"no id":          {`{"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}]}`, 400},
		"a long id":      {userMessage(strings.Repeat("x", 1001), "m1", "x"), 400},
		"no path":        {userMessage("..", "m1", "x"), 400},
		"a slash":        {userMessage("/", "m1", "x"), 400},
		"no schema":      {`{"id":"c1","tools":{"a":{"parameters":"no"}},"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`, 400},
		"a message id":   {userMessage("c1", strings.Repeat("x", 201), "x"), 400},
		"a system role":  {`{"id":"c1","messages":[{"id":"m","role":"system","parts":[]}]}`, 400},
		"no parts":       {`{"id":"c1","messages":[{"id":"m","role":"user","parts":[]}]}`, 400},
		"unknown part":   {`{"id":"c1","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"},{"type":"hologram"}]}]}`, 400},
		"empty text":     {userMessage("c1", "m1", ""), 400},
		"many parts":     {`{"id":"c1","messages":[{"id":"m","role":"user","parts":[` + parts + `]}]}`, 413},
		"a file: URL":    {`{"id":"c1","messages":[{"id":"m","role":"user","parts":[{"type":"file","mediaType":"text/plain","url":"file:///etc/passwd"}]}]}`, 400},
		"broken data":    {`{"id":"c1","messages":[{"id":"m","role":"user","parts":[{"type":"file","mediaType":"image/png","url":"data:image/png;base64,%%"}]}]}`, 400},
		"a trigger":      {`{"id":"c1","trigger":"other","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`, 400},
		"a large text":   {userMessage("c1", "m1", strings.Repeat("x", 1<<20)), 413},
		"an event":       {userMessage("c1", "m1", strings.Repeat("x", chat.MaxEvent-500)), 413},
		"a linked file":  {`{"id":"c1","messages":[{"id":"m","role":"user","parts":[{"type":"file","mediaType":"text/plain","url":"/parley/v1/sessions/c1/artifacts/uploads/a"}]}]}`, 400},
		"answer of none": {`{"id":"c1","messages":[{"id":"t-1","role":"assistant","parts":[]}]}`, 404},
		"no agent":       {`{"id":"c1","agent":"none","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`, 400},
		"an agent":       {`{"id":"c1","agent":"not a name!","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`, 400},
	} {
		if got := s.post(c.body); got.status != c.status || got.text == "" || strings.HasPrefix(got.text, "{") {
			t.Errorf("%s: %d %q", name, got.status, got.text)
		}
	}
	if got := s.post(`{"id":"c1","messages":[{"id":"m","role":"user","content":"x"}]}`); got.status != 400 || !strings.Contains(got.text, "versions 5, 6 and 7") {
		t.Errorf("a message of version 4: %d %q", got.status, got.text)
	}
	for _, route := range []string{"POST /api/chat", "GET /api/chat/c1/stream", "GET /api/chat/c1/messages"} {
		method, path, _ := strings.Cut(route, " ")
		for _, version := range []string{"4", "8"} {
			got := s.read(s.Send(method, path+"?sdk="+version, userMessage("c1", "m1", "x"), s.header()...), 0)
			if got.status != http.StatusBadRequest || !strings.Contains(got.text, "versions 5, 6 and 7") {
				t.Errorf("%s of version %s: %d %q", route, version, got.status, got.text)
			}
		}
	}
	for _, route := range []string{"POST /api/chat?sdk=5&sdk=6", "POST /api/chat?agent=demo&agent=other", "POST /api/chat?agent=%zz", "GET /api/chat/c1/messages?sdk=5&sdk=6",
		"GET /api/chat/c1/stream?replay=all", "GET /api/chat/c1/stream?startIndex=1&startIndex=2", "GET /api/chat/c1/stream?startIndex=1.5"} {
		method, path, _ := strings.Cut(route, " ")
		got := s.read(s.Send(method, path, userMessage("c1", "m1", "x"), s.header()...), 0)
		if got.status != http.StatusBadRequest || strings.HasPrefix(got.text, "{") {
			t.Errorf("%s: %d %q", route, got.status, got.text)
		}
	}
	if events := s.Events("c1"); len(events) != 0 {
		t.Errorf("stored: %v", events)
	}
}

func TestChatsBelongToTheirOwners(t *testing.T) {
	s := newTestServer(t, nil, "alice", "bob")
	hers := s.say("c1", "m1", "/echo hers")
	s.user = "bob"
	if got := s.get("/api/chat/" + hers.run + "/stream?startIndex=0"); got.status != http.StatusNoContent {
		t.Errorf("her run: %d %v", got.status, got.chunks)
	}
	if _, body, _ := s.Call("GET", "/api/chat/c1/messages", "", s.header()...); body != "[]" {
		t.Errorf("her messages: %s", body)
	}
	if got := s.say("c1", "m1", "/echo his"); got.words() != "his" {
		t.Errorf("his chat: %d %s %v", got.status, got.text, got.chunks)
	}
	if n := len(s.Events("c1", "user.message")); n != 1 {
		t.Errorf("her session has %d messages", n)
	}
	res := s.Send("GET", "/api/chat/c1/messages", "", "Authorization", "Bearer "+servertest.TokenOf("carol"))
	if got := s.read(res, 0); got.status != http.StatusUnauthorized || got.text == "" {
		t.Errorf("nobody: %d %s", got.status, got.text)
	}
}

// fileMessage is a message with a file.
func fileMessage(text, address string) string {
	return fmt.Sprintf(`{"id":"c1","messageId":"m","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":%q},{"type":"file","mediaType":"image/png","filename":"a.png","url":%q}]}]}`, text, address)
}

func TestALargeFileIsStored(t *testing.T) {
	s := newTestServer(t, nil, "alice", "bob")
	data := "data:image/png;base64," + strings.Repeat("QUJD", 20000)
	first := s.post(fileMessage("/echo seen", data))
	if first.words() != "seen" {
		t.Fatalf("%d %s", first.status, first.text)
	}
	b := s.Events("c1", "user.message")[0].Body.(chat.UserMessage)
	if len(b.Content) != 1 || b.Content[0].Path == "" || b.Content[0].URL != "" || b.Content[0].Type != "image" || b.Content[0].Name != "a.png" {
		t.Errorf("%+v", b.Content)
	}
	// After a reload the page has the address of the file instead of its data.
	link := attachment.URL("c1", b.Content[0].Path)
	for _, address := range []string{data, link} {
		if again := s.post(fileMessage("/echo seen", address)); fmt.Sprint(again.chunks) != fmt.Sprint(first.chunks) {
			t.Errorf("the same message again: %d %s %v", again.status, again.text, again.chunks)
		}
	}
	for _, words := range []string{"edited", "twice"} { // the second edit is of a fork, and its link of the first session
		if edit := s.post(fileMessage("/echo "+words, link)); edit.words() != words {
			t.Errorf("an edited message: %d %s %v", edit.status, edit.text, edit.chunks)
		}
	}
	s.user = "bob"
	if got := s.post(fileMessage("/echo mine", link)); got.status != http.StatusBadRequest {
		t.Errorf("the file of another person: %d %v", got.status, got.chunks)
	}
}

func TestCompressedBodyIsRefusedAsSuch(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.read(s.Send("POST", "/api/chat", "\x1f\x8b", "Content-Type", "application/json", "Content-Encoding", "gzip"), 0)
	if got.status != http.StatusBadRequest || !strings.Contains(got.text, "uncompressed") {
		t.Errorf("%d %s", got.status, got.text)
	}
}
