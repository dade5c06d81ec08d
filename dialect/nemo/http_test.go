package nemo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

func chatBody(text string) string {
	b, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}, "model": "placeholder", "temperature": 0.7})
	return string(b)
}

func inputBody(text string) string {
	b, _ := json.Marshal(map[string]string{"input_message": text})
	return string(b)
}

// Each address answers in its own form.
func TestAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	for _, path := range []string{"/chat", "/v1/chat", "/v1/chat/completions"} {
		code, body, _ := w.post("POST", path, chatBody("/usage 11 7"))
		var c struct {
			Object  string
			Created int64
			Model   string
			Choices []struct {
				Message struct{ Role, Content string }
				Finish  string `json:"finish_reason"`
			}
			Usage usage
		}
		if err := json.Unmarshal([]byte(body), &c); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		if c.Object != "chat.completion" || c.Created == 0 || c.Model == "" || len(c.Choices) != 1 || c.Choices[0].Message.Content != "Used 11 tokens in and 7 out." ||
			c.Choices[0].Finish != "stop" || c.Usage != (usage{11, 7, 18}) {
			t.Errorf("%s: %s", path, body)
		}
	}
	for _, path := range []string{"/generate", "/v1/workflow"} {
		for _, in := range []string{inputBody("hi"), `{"query":"hi"}`, `{"anything":"hi","n":2}`, `"hi"`, `{"messages":[{"role":"user","content":"hi"}]}`} {
			if code, body, _ := w.post("POST", path, in); code != 200 || body != `{"value":"You said: hi"}` {
				t.Errorf("%s %s: %d %s", path, in, code, body)
			}
		}
	}
	for path, in := range map[string]string{
		"/chat/stream": chatBody("/tool calc {\"a\":1}"), "/v1/chat/stream": chatBody("/tool calc {\"a\":1}"),
		"/generate/stream": inputBody("/tool calc {\"a\":1}"), "/v1/workflow/stream": inputBody("/tool calc {\"a\":1}"),
	} {
		_, body, head := w.post("POST", path, in)
		if got := head.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
			t.Errorf("%s: %s", path, got)
		}
		if got := streamText(t, body); got != `calc gave {"a":1}` {
			t.Errorf("%s: %q", path, got)
		}
		if !strings.Contains(body, `intermediate_data: {"id":"`) || !strings.Contains(body, "observability_trace: {") {
			t.Errorf("%s has no steps or no trace:\n%s", path, body)
		}
		if chat := strings.Contains(path, "chat"); chat != strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("%s ends %q", path, body[max(0, len(body)-60):])
		}
	}
	for _, path := range []string{"/generate/full", "/v1/workflow/full"} {
		_, body, _ := w.post("POST", path, inputBody("/tool calc {\"a\":1}"))
		if !strings.Contains(body, `"type":"TOOL_START"`) || !strings.Contains(body, `"type":"TOOL_END"`) || !strings.Contains(body, "data: {\"value\":") {
			t.Errorf("%s: %s", path, body)
		}
		if _, body, _ = w.post("POST", path+"?filter_steps=TOOL_END", inputBody("/tool calc {\"a\":1}")); strings.Contains(body, "TOOL_START") || !strings.Contains(body, "TOOL_END") {
			t.Errorf("%s filtered: %s", path, body)
		}
		if _, body, _ = w.post("POST", path+"?filter_steps=none", inputBody("/tool calc {\"a\":1}")); strings.Contains(body, "intermediate_data") {
			t.Errorf("%s without steps: %s", path, body)
		}
	}
	if code, body, _ := w.post("GET", "/health", ""); code != 200 || body != `{"status":"healthy"}` {
		t.Errorf("health: %d %s", code, body)
	}
	if code, body, _ := w.post("GET", "/mcp/client/tool/list", ""); code != 200 || body != `{"mcp_clients":[]}` {
		t.Errorf("tools: %d %s", code, body)
	}
}

// streamText strings the texts of a stream together, as the UI's gateway does.
func streamText(t *testing.T, body string) string {
	t.Helper()
	var s strings.Builder
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c struct {
			Value   string
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		s.WriteString(c.Value)
		for _, one := range c.Choices {
			s.WriteString(one.Delta.Content)
		}
	}
	return s.String()
}

// OpenAI's streams carry nothing that its clients do not know, and count tokens
// when asked to.
func TestOpenAIStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	_, body, _ := w.post("POST", "/v1/chat/completions", `{"model":"m1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"/usage 5 6"}]}`)
	if streamText(t, body) != "Used 5 tokens in and 6 out." || strings.Contains(body, "intermediate_data") || strings.Contains(body, "observability") {
		t.Errorf("%s", body)
	}
	if !strings.Contains(body, `"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}`) || !strings.Contains(body, `"model":"m1"`) {
		t.Errorf("no usage: %s", body)
	}
	code, body, _ := w.post("POST", "/v1/chat/completions", `{"messages":[]}`)
	if code != 400 || !strings.Contains(body, `"error":{`) || !strings.Contains(body, "invalid_request_error") {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ = w.post("POST", "/v1/chat/completions", chatBody("/fail no luck")); code != 500 || !strings.Contains(body, "no luck") {
		t.Errorf("%d %s", code, body)
	}
}

// The headers tie a request to a conversation and make it safe to repeat.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for range 2 {
		code, body, head := w.post("POST", "/chat", chatBody("hi"), "Conversation-Id", "c1", "User-Message-ID", "m1", "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
		if code != 200 || !strings.Contains(body, "You said: hi") || head.Get("Observability-Trace-Id") != trace || head.Get("Conversation-Id") != "c1" {
			t.Errorf("%d %s %v", code, body, head)
		}
	}
	facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.message"}})
	if err != nil || len(facts) != 1 {
		t.Errorf("%d messages, want 1 (%v)", len(facts), err)
	}
	_, body, _ := w.post("POST", "/chat/stream", chatBody("hi"), "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	if !strings.Contains(body, `observability_trace: {"observability_trace_id":"`+trace+`"}`) {
		t.Errorf("%s", body)
	}
}

// What went wrong has the form that each kind of client looks for.
func TestErrorsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	if code, body, _ := w.post("POST", "/chat", chatBody("/fail no luck")); code != 422 || body != `{"code":"workflow_error","message":"no luck","details":"The agent failed"}` {
		t.Errorf("%d %s", code, body)
	}
	if _, body, _ := w.post("POST", "/chat/stream", chatBody("/fail no luck")); !strings.Contains(body, "\n{\"code\":\"workflow_error\",\"message\":\"no luck\"") {
		t.Errorf("legacy stream: %q", body)
	}
	if _, body, _ := w.post("POST", "/v1/chat/stream", chatBody("/fail no luck")); !strings.Contains(body, "event: error\ndata: {\"code\":\"workflow_error\"") {
		t.Errorf("stream: %q", body)
	}
	for path, body := range map[string]string{
		"/chat": `{"messages":`, "/v1/chat": `{"messages":[]}`, "/generate": `{}`, "/v1/workflow": `7`, "/generate/stream": `{"input_message":""}`,
	} {
		code, got, _ := w.post("POST", path, body)
		var e errorContent
		if json.Unmarshal([]byte(got), &e) != nil || code != 422 || !strings.HasPrefix(e.Code, "invalid_") || !strings.Contains(got, `"detail":"`) {
			t.Errorf("%s %s: %d %s", path, body, code, got)
		}
	}
	s := newWorld(t, setup{secured: true})
	if code, body, _ := s.post("POST", "/chat", chatBody("hi")); code != 401 || !strings.Contains(body, codeAuth) {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := s.post("POST", "/v1/chat/completions", chatBody("hi")); code != 401 || !strings.Contains(body, "authentication_error") {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := s.post("POST", "/chat", chatBody("hi"), "Authorization", "Bearer "+tokenOf("bob")); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

// Human in the loop over plain HTTP: 202, poll, answer, poll.
func TestInteractionsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	code, body, _ := w.post("POST", "/v1/workflow", inputBody("/ask checkbox"))
	var x struct {
		ID          string `json:"execution_id"`
		Status      string
		StatusURL   string `json:"status_url"`
		Interaction string `json:"interaction_id"`
		ResponseURL string `json:"response_url"`
		Prompt      struct {
			InputType string `json:"input_type"`
			Options   []option
		}
		Error  string
		Result struct{ Value string }
	}
	if err := json.Unmarshal([]byte(body), &x); err != nil || code != 202 || x.Status != "interaction_required" || x.Prompt.InputType != "checkbox" || len(x.Prompt.Options) != 3 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	if code, body, _ := w.post("GET", x.StatusURL, ""); code != 200 || !strings.Contains(body, `"status":"interaction_required"`) || !strings.Contains(body, x.ResponseURL) {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := w.post("POST", x.ResponseURL, `{"response":{"type":"checkbox","selected_option":{"id":"x","label":"x","value":"pigeon"}}}`); code != 422 {
		t.Errorf("what was not offered: %d %s", code, body)
	}
	for _, bad := range []string{`{}`, `{"response":{"type":"scream"}}`, `[]`} {
		if code, body, _ := w.post("POST", x.ResponseURL, bad); code != 422 {
			t.Errorf("%s: %d %s", bad, code, body)
		}
	}
	if code, body, _ := w.post("POST", x.ResponseURL, `{"response":{"type":"checkbox","selected_option":[{"id":"email","label":"Email","value":"email"},{"id":"sms","value":"sms"}]}}`); code != 204 || body != "" {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := w.post("POST", x.ResponseURL, `{"response":{"type":"checkbox","selected_option":{"value":"sms"}}}`); code != 400 || !strings.Contains(body, "answered") {
		t.Errorf("twice: %d %s", code, body)
	}
	w.poll(x.StatusURL, `"status":"completed","result":{"value":"You answered: email, sms"}`)
	for _, path := range []string{"/executions/nonsense", "/executions/" + x.Interaction, "/executions/00000000-0000-4000-8000-000000000000"} {
		if code, _, _ := w.post("GET", path, ""); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _, _ := w.post("POST", "/executions/"+x.ID+"/interactions/"+x.ID+"/response", `{"response":{"type":"text","text":"x"}}`); code != 404 {
		t.Errorf("no such interaction: %d", code)
	}
	if _, body, _ = w.post("POST", "/v1/chat", chatBody("/ask oauth_consent")); !strings.Contains(body, `"status":"oauth_required"`) || !strings.Contains(body, `"auth_url":"https://example.com/`) {
		t.Errorf("consent: %s", body)
	}
}

// poll asks until the answer contains a text.
func (w *world) poll(path, want string) {
	w.t.Helper()
	var body string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if _, body, _ = w.post("GET", path, ""); strings.Contains(body, want) {
			return
		}
	}
	w.t.Fatalf("%s never says %s, but %s", path, want, body)
}

// An execution outlives the server, and is its owner's alone.
func TestExecutionOverRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{secured: true})
	alice, bob := []string{"Authorization", "Bearer " + tokenOf("alice")}, []string{"Authorization", "Bearer " + tokenOf("bob")}
	_, body, _ := w.post("POST", "/v1/chat", chatBody("/ask text"), alice...)
	var x execution
	if err := json.Unmarshal([]byte(body), &x); err != nil || x.ResponseURL == "" {
		t.Fatal(body, err)
	}
	w = w.restart()
	if code, _, _ := w.post("GET", x.StatusURL, "", bob...); code != 404 {
		t.Errorf("bob sees it: %d", code)
	}
	if code, _, _ := w.post("POST", x.ResponseURL, `{"response":{"type":"text","text":"Bob"}}`, bob...); code != 404 {
		t.Errorf("bob answers it: %d", code)
	}
	if code, body, _ := w.post("POST", x.ResponseURL, `{"response":{"type":"text","text":"Ada"}}`, alice...); code != 204 {
		t.Errorf("%d %s", code, body)
	}
	w.ended(w.only(), 1)
	if _, body, _ := w.post("GET", x.StatusURL, "", alice...); !strings.Contains(body, "You answered: Ada") || !strings.Contains(body, "chat.completion") {
		t.Errorf("%s", body)
	}
}

// only returns the one session there is.
func (w *world) only() chat.SessionID {
	w.t.Helper()
	page, err := w.sessions.List(w.t.Context(), chat.Trusted, chat.Filter{Limit: 5})
	if err != nil || len(page.Sessions) != 1 {
		w.t.Fatal(err, page)
	}
	return page.Sessions[0].ID
}

// A stream tells of a prompt and goes on when it is answered.
func TestInteractionInStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	r, err := http.NewRequestWithContext(t.Context(), "POST", w.server.URL+"/v1/chat/stream", strings.NewReader(chatBody("/ask radio")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := w.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines, all := bufio.NewScanner(res.Body), ""
	for lines.Scan() {
		all += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), `data: {"event_type":"interaction_required"`) {
			var x execution
			if err := json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &x); err != nil {
				t.Fatal(err)
			}
			if code, body, _ := w.post("POST", x.ResponseURL, `{"response":{"type":"radio","selected_option":{"id":"sms","label":"SMS","value":"sms"}}}`); code != 204 {
				t.Fatalf("%d %s", code, body)
			}
		}
	}
	if !strings.Contains(all, "event: interaction_required\n") || streamText(t, all) != "You answered: sms" {
		t.Errorf("%s", all)
	}
}

// Where a route has no words for a prompt, its text is shown, and the next
// message of the conversation answers it.
func TestPromptAsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	ask := func(path, text string) string {
		_, body, _ := w.post("POST", path, chatBody(text), "Conversation-Id", "c1")
		if strings.HasSuffix(path, "stream") {
			return streamText(t, body)
		}
		var c struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(body), &c); err != nil || len(c.Choices) != 1 {
			t.Fatal(body)
		}
		return c.Choices[0].Message.Content
	}
	for _, path := range []string{"/chat", "/chat/stream"} {
		if got := ask(path, "/ask radio"); !strings.HasPrefix(got, "How should I notify you?\n- email") {
			t.Errorf("%s: %q", path, got)
		}
		if got := ask(path, "pigeon"); !strings.Contains(got, "not one of the options") || !strings.Contains(got, "How should I notify you?") {
			t.Errorf("%s: %q", path, got)
		}
		if got := ask(path, "sms"); got != "You answered: sms" {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// The client of a single answer that goes away stops it; a conversation goes on.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	for _, tc := range []struct {
		header []string
		want   chat.Outcome
	}{{nil, chat.Stopped}, {[]string{"Conversation-Id", "c1"}, chat.Done}} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", w.server.URL+"/chat/stream", strings.NewReader(chatBody("/stream 60 50")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(tc.header); i += 2 {
			r.Header.Set(tc.header[i], tc.header[i+1])
		}
		res, err := w.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		id := chat.SessionID(res.Header.Get("Conversation-Id"))
		res.Body.Close()
		w.ended(id, 1)
		facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, id, chat.Range{Types: []string{"turn.completed"}})
		if err != nil || len(facts) != 1 {
			t.Fatal(err)
		}
		e, _ := facts[0].Event()
		if got := e.Body.(chat.TurnCompleted).Outcome; got != tc.want {
			t.Errorf("%v: the turn ended as %s, want %s", tc.header, got, tc.want)
		}
	}
}

// Jobs: submitted, polled, done; they are found again by their id.
func TestJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	for _, base := range []string{"/v1/workflow/async", "/generate/async"} {
		code, body, _ := w.post("POST", base, inputBody("/sleep 0.05"))
		var j job
		if err := json.Unmarshal([]byte(body), &j); err != nil || code != 202 || j.Status != "submitted" || j.ID == "" {
			t.Fatalf("%d %s", code, body)
		}
		w.poll(base+"/job/"+j.ID, `"status":"success"`)
		_, body, _ = w.post("GET", base+"/job/"+j.ID, "")
		if err := json.Unmarshal([]byte(body), &j); err != nil || j.ExpiresAt-j.UpdatedAt != 3600*1e6 || !strings.Contains(body, `"output":{"value":"Awake."}`) || !strings.Contains(body, `"error":null`) {
			t.Errorf("%s %v", body, err)
		}
	}
	code, body, _ := w.post("POST", "/v1/workflow/async", `{"input_message":"hi","job_id":"j-1","sync_timeout":5,"expiry_seconds":600}`)
	if code != 200 || !strings.Contains(body, `"status":"success"`) || !strings.Contains(body, "You said: hi") {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ = w.post("POST", "/v1/workflow/async", `{"input_message":"hi","job_id":"j-1"}`); code != 200 || body != `{"job_id":"j-1","status":"success"}` {
		t.Errorf("again: %d %s", code, body)
	}
	if code, body, _ = w.post("POST", "/v1/workflow/async", `{"input_message":"/fail no","job_id":"j-2","sync_timeout":5}`); code != 200 || !strings.Contains(body, `"status":"failure","error":"no"`) {
		t.Errorf("%d %s", code, body)
	}
	for _, bad := range []string{`{"input_message":"hi","sync_timeout":301}`, `{"input_message":"hi","expiry_seconds":1}`, `{"input_message":"hi","job_id":"a b"}`} {
		if code, body, _ := w.post("POST", "/v1/workflow/async", bad); code != 422 {
			t.Errorf("%s: %d %s", bad, code, body)
		}
	}
	if code, body, _ := w.post("GET", "/v1/workflow/async/job/none", ""); code != 404 || !strings.Contains(body, "Job none not found") {
		t.Errorf("%d %s", code, body)
	}
}

// A job is forgotten after its time.
func TestJobExpires(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	begin := time.Now()
	w := newWorld(t, setup{now: func() time.Time { return begin.Add(time.Duration(late.Load())) }})
	w.post("POST", "/v1/workflow/async", `{"input_message":"hi","job_id":"j-1","sync_timeout":5,"expiry_seconds":600}`)
	late.Store(int64(599 * time.Second))
	if code, _, _ := w.post("GET", "/v1/workflow/async/job/j-1", ""); code != 200 {
		t.Errorf("before: %d", code)
	}
	late.Store(int64(601 * time.Second))
	if code, _, _ := w.post("GET", "/v1/workflow/async/job/j-1", ""); code != 404 {
		t.Errorf("after: %d", code)
	}
}

// Feedback is kept as an event of the conversation it is about.
func TestFeedback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	frames := c.turn()
	trace := frames[len(frames)-1].Content.Trace
	if code, body, _ := w.post("POST", "/feedback", fmt.Sprintf(`{"observability_trace_id":%q,"reaction_type":"👍"}`, trace)); code != 200 || !strings.Contains(body, `"message":`) {
		t.Errorf("%d %s", code, body)
	}
	w.post("POST", "/chat", chatBody("hi"), "Conversation-Id", "c2", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if code, body, _ := w.post("POST", "/feedback", `{"observability_trace_id":"0af7651916cd43dd8448eb211c80319c","comment":"nice"}`); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	for id, want := range map[chat.SessionID]string{"c1": `"reaction":"👍"`, "c2": `"comment":"nice"`} {
		facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, id, chat.Range{Types: []string{feedbackType}})
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
		if code, got, _ := w.post("POST", "/feedback", body); code != want {
			t.Errorf("%s: %d %s", body, code, got)
		}
	}
}

// Files: put, get, replace, delete.
func TestStatic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	form := func(method, text string) (int, string) {
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		part, err := m.CreateFormFile("file", "x.txt")
		if err != nil {
			t.Fatal(err)
		}
		part.Write([]byte(text))
		m.Close()
		code, body, _ := w.post(method, "/static/docs/x.txt", b.String(), "Content-Type", m.FormDataContentType())
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
	code, body, head := w.post("GET", "/static/docs/x.txt", "")
	if code != 200 || body != "three" || head.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(head.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %s %v", code, body, head)
	}
	if code, _, _ := w.post("DELETE", "/static/docs/x.txt", ""); code != 204 {
		t.Errorf("%d", code)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if code, _, _ := w.post(method, "/static/docs/x.txt", ""); code != 404 {
			t.Errorf("%s: %d", method, code)
		}
	}
	if code, body, _ := w.post("PUT", "/static/raw.bin", "raw", "Content-Type", "application/octet-stream"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

// A newer message in the conversation takes the place of a request that waits.
func TestRequestIsOvertaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	done := make(chan string)
	go func() {
		code, body, _ := w.post("POST", "/chat", chatBody("/sleep 60"), "Conversation-Id", "c1")
		done <- fmt.Sprint(code, body)
	}()
	w.running("c1")
	if _, body, _ := w.post("POST", "/chat", chatBody("hi"), "Conversation-Id", "c1"); !strings.Contains(body, "You said: hi") {
		t.Errorf("%s", body)
	}
	if got := <-done; !strings.HasPrefix(got, "409") {
		t.Errorf("%s", got)
	}
}
