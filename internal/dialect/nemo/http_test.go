package nemo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
)

// Each route answers in its own form.
func TestAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	for _, path := range []string{"/chat", "/v1/chat", "/v1/chat/completions"} {
		code, body, _ := w.Call("POST", path, chatBody("/usage 11 7"))
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
	// A body without a text is the text itself, but for what proves who sends it.
	if code, body, _ := w.Call("POST", "/v1/workflow", `{"n":5,"Security":{"api_key":"sesame"}}`); code != 200 || body != `{"value":"You said: {\"n\":5}"}` {
		t.Errorf("%d %s", code, body)
	}
	for _, path := range []string{"/generate", "/v1/workflow"} {
		for _, in := range []string{inputBody("hi"), `{"query":"hi"}`, `{"anything":"hi","n":2}`, `"hi"`, `{"messages":[{"role":"user","content":"hi"}]}`} {
			if code, body, _ := w.Call("POST", path, in); code != 200 || body != `{"value":"You said: hi"}` {
				t.Errorf("%s %s: %d %s", path, in, code, body)
			}
		}
	}
	for path, in := range map[string]string{
		"/chat/stream": chatBody("/tool calc {\"a\":1}"), "/v1/chat/stream": chatBody("/tool calc {\"a\":1}"),
		"/generate/stream": inputBody("/tool calc {\"a\":1}"), "/v1/workflow/stream": inputBody("/tool calc {\"a\":1}"),
	} {
		_, body, head := w.Call("POST", path, in)
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
		_, body, _ := w.Call("POST", path, inputBody("/tool calc {\"a\":1}"))
		if !strings.Contains(body, `"type":"TOOL_START"`) || !strings.Contains(body, `"type":"TOOL_END"`) || !strings.Contains(body, "data: {\"value\":") {
			t.Errorf("%s: %s", path, body)
		}
		if _, body, _ = w.Call("POST", path+"?filter_steps=TOOL_END", inputBody("/tool calc {\"a\":1}")); strings.Contains(body, "TOOL_START") || !strings.Contains(body, "TOOL_END") {
			t.Errorf("%s filtered: %s", path, body)
		}
		if _, body, _ = w.Call("POST", path+"?filter_steps=none", inputBody("/tool calc {\"a\":1}")); strings.Contains(body, "intermediate_data") {
			t.Errorf("%s without steps: %s", path, body)
		}
	}
	if code, body, _ := w.Call("GET", "/health", ""); code != 200 || body != `{"status":"healthy"}` {
		t.Errorf("health: %d %s", code, body)
	}
	if code, body, _ := w.Call("GET", "/mcp/client/tool/list", ""); code != 200 || body != `{"mcp_clients":[]}` {
		t.Errorf("tools: %d %s", code, body)
	}
}

// OpenAI streams have only OpenAI's fields, and token counts on request.
func TestOpenAIStream(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	_, body, _ := w.Call("POST", "/v1/chat/completions", `{"model":"m1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"/usage 5 6"}]}`)
	if streamText(t, body) != "Used 5 tokens in and 6 out." || strings.Contains(body, "intermediate_data") || strings.Contains(body, "observability") {
		t.Errorf("%s", body)
	}
	if !strings.Contains(body, `"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}`) || !strings.Contains(body, `"model":"m1"`) {
		t.Errorf("no usage: %s", body)
	}
	code, body, _ := w.Call("POST", "/v1/chat/completions", `{"messages":[]}`)
	if code != 400 || !strings.Contains(body, `"error":{`) || !strings.Contains(body, "invalid_request_error") {
		t.Errorf("%d %s", code, body)
	}
	code, body, head := w.Call("POST", "/v1/chat/completions", chatBody("/fail no luck"))
	if code != 500 || !strings.Contains(body, "no luck") || head.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %s %v", code, body, head)
	}
}

// Headers name the conversation of a request and make it safe to repeat.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for range 2 {
		code, body, head := w.Call("POST", "/chat", chatBody("hi"), "Conversation-Id", "c1", "User-Message-ID", "m1", "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
		if code != 200 || !strings.Contains(body, "You said: hi") || head.Get("Observability-Trace-Id") != trace || head.Get("Conversation-Id") != "c1" {
			t.Errorf("%d %s %v", code, body, head)
		}
	}
	facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, "c1", chat.Range{Types: []string{"user.message"}})
	if err != nil || len(facts) != 1 {
		t.Errorf("%d messages, want 1 (%v)", len(facts), err)
	}
	_, body, _ := w.Call("POST", "/chat/stream", chatBody("hi"), "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	if !strings.Contains(body, `observability_trace: {"observability_trace_id":"`+trace+`"}`) {
		t.Errorf("%s", body)
	}
}

// Errors have the form that each kind of client reads.
func TestErrorsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	if code, body, _ := w.Call("POST", "/chat", chatBody("/fail no luck")); code != 422 || body != `{"code":"workflow_error","message":"no luck","details":"The agent failed"}` {
		t.Errorf("%d %s", code, body)
	}
	if _, body, _ := w.Call("POST", "/chat/stream", chatBody("/fail no luck")); !strings.Contains(body, "\n{\"code\":\"workflow_error\",\"message\":\"no luck\"") {
		t.Errorf("legacy stream: %q", body)
	}
	if _, body, _ := w.Call("POST", "/v1/chat/stream", chatBody("/fail no luck")); !strings.Contains(body, "event: error\ndata: {\"code\":\"workflow_error\"") {
		t.Errorf("stream: %q", body)
	}
	for path, body := range map[string]string{
		"/chat": `{"messages":`, "/v1/chat": `{"messages":[]}`, "/generate": `{}`, "/v1/workflow": `7`, "/generate/stream": `{"input_message":""}`,
	} {
		code, got, _ := w.Call("POST", path, body)
		var e errorContent
		if json.Unmarshal([]byte(got), &e) != nil || code != 422 || !strings.HasPrefix(e.Code, "invalid_") || !strings.Contains(got, `"detail":"`) {
			t.Errorf("%s %s: %d %s", path, body, code, got)
		}
	}
	s := newServer(t, setup{secured: true})
	if code, body, _ := s.Call("POST", "/chat", chatBody("hi")); code != 401 || !strings.Contains(body, codeAuth) {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := s.Call("POST", "/v1/chat/completions", chatBody("hi")); code != 401 || !strings.Contains(body, "authentication_error") {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := s.Call("POST", "/chat", chatBody("hi"), "Authorization", "Bearer "+servertest.TokenOf("bob")); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

// The turn of a request without a conversation stops when the client disconnects; others continue.
func TestDisconnectStopsOneShotTurn(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{2, map[int]chan struct{}{1: gate}}}})
	for _, tc := range []struct {
		header []string
		want   chat.Outcome
	}{{nil, chat.Stopped}, {[]string{"Conversation-Id", "c1"}, chat.Done}} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", w.HTTP.URL+"/chat/stream", strings.NewReader(chatBody("go")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(tc.header); i += 2 {
			r.Header.Set(tc.header[i], tc.header[i+1])
		}
		res, err := w.HTTP.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		id := chat.SessionID(res.Header.Get("Conversation-Id"))
		res.Body.Close()
		if tc.want == chat.Done {
			close(gate)
		}
		w.waitTurns(id, 1)
		facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, id, chat.Range{Types: []string{"turn.completed"}})
		if err != nil || len(facts) != 1 {
			t.Fatal(err)
		}
		e, _ := facts[0].Event()
		if got := e.Body.(chat.TurnCompleted).Outcome; got != tc.want {
			t.Errorf("%v: the turn ended as %s, want %s", tc.header, got, tc.want)
		}
	}
}

func TestDisconnectIsNotLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer // the logger writes one line at a time, and is read when the server has ended
	w := newServer(t, setup{change: func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }})
	for _, path := range []string{"/chat", "/v1/chat/completions"} {
		id := chat.SessionID("c" + strings.ReplaceAll(path, "/", "-"))
		ctx, hangUp := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", w.HTTP.URL+path, strings.NewReader(chatBody("/sleep 60")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Conversation-Id", string(id))
		ended := make(chan error)
		go func() {
			_, err := w.HTTP.Client().Do(r)
			ended <- err
		}()
		w.running(id)
		hangUp()
		if err := <-ended; err == nil {
			t.Error("there was an answer")
		}
	}
	w.Close()
	if log.Len() > 0 {
		t.Errorf("the log says %s", log.String())
	}
}

func TestNewerMessageSupersedesRequest(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	done := make(chan string)
	go func() {
		code, body, _ := w.Call("POST", "/chat", chatBody("/sleep 60"), "Conversation-Id", "c1")
		done <- fmt.Sprint(code, body)
	}()
	w.running("c1")
	if _, body, _ := w.Call("POST", "/chat", chatBody("hi"), "Conversation-Id", "c1"); !strings.Contains(body, "You said: hi") {
		t.Errorf("%s", body)
	}
	if got := <-done; !strings.HasPrefix(got, "409") {
		t.Errorf("%s", got)
	}
}

// listener is an agent that says something, waits, and answers what it was told
// meanwhile.
type listener struct{ gate chan struct{} }

func (l listener) Answer(ctx context.Context, t *agent.Turn) error {
	if err := t.Say(ctx, "Listening."); err != nil {
		return err
	}
	select {
	case <-l.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	told, err := t.NewMessages(ctx)
	for i := 0; i < len(told) && err == nil; i++ {
		err = t.Say(ctx, "You also said: "+told[i].Text)
	}
	return err
}

// A turn of another dialect takes the message in and answers it, or the message is withdrawn.
func TestRequestWithoutOwnTurnEnds(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": listener{gate}}})
	wait := func(id chat.SessionID, policy chat.Policy, path string) chan string {
		t.Helper()
		if _, _, err := w.Sessions.Create(t.Context(), local, chat.NewSession{ID: id, Policy: policy}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Sessions.Append(t.Context(), local, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "go"})}); err != nil {
			t.Fatal(err)
		}
		w.happened(id, "agent.text")
		done := make(chan string, 1)
		go func() {
			code, body, _ := w.Call("POST", path, chatBody("more"), "Conversation-Id", string(id))
			done <- fmt.Sprint(code, "\n", body)
		}()
		w.Until(id, "user.message", 2)
		return done
	}
	withdrawn := wait("c1", chat.Queue, "/chat")
	waiting, _, err := w.Sessions.Read(t.Context(), local, "c1", chat.Range{Types: []string{"user.message"}, Desc: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sessions.Append(t.Context(), local, "c1", []chat.Draft{chat.NewDraft(chat.UserMessageWithdrawn{Sequence: waiting[0].Seq})}); err != nil {
		t.Fatal(err)
	}
	if got := <-withdrawn; !strings.HasPrefix(got, "409") || !strings.Contains(got, "withdrawn") {
		t.Errorf("withdrawn: %s", got)
	}
	whole, stream := wait("c2", chat.Steer, "/chat"), wait("c3", chat.Steer, "/v1/chat/stream")
	close(gate)
	if got := <-whole; !strings.HasPrefix(got, "200") || !strings.Contains(got, `"content":"You also said: more"`) {
		t.Errorf("taken in: %s", got)
	}
	if got := <-stream; streamText(t, got) != "You also said: more" || !strings.HasSuffix(got, "[DONE]\n\n") {
		t.Errorf("taken in, a stream: %s", got)
	}
}

// A session without turns refuses a request before it is stored: clients repeat it.
func TestRequestWithoutAgentIsNotStored(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	if _, _, err := w.Sessions.Create(t.Context(), local, chat.NewSession{ID: "c1", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/chat", "/v1/chat/completions", "/chat/stream"} {
		if code, body, _ := w.Call("POST", path, chatBody("hi"), "Conversation-Id", "c1"); code != 409 || !strings.Contains(body, "WebSocket") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if kept, _, err := w.Sessions.Read(t.Context(), local, "c1", chat.Range{Types: []string{"user.message"}}); err != nil || len(kept) != 0 {
		t.Errorf("%d messages are kept, %v", len(kept), err)
	}
}

func chatBody(text string) string {
	b, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}, "model": "placeholder", "temperature": 0.7})
	return string(b)
}

func inputBody(text string) string {
	b, _ := json.Marshal(map[string]string{"input_message": text})
	return string(b)
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
