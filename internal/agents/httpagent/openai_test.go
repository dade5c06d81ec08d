package httpagent_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
)

func writeText(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range pieces {
		b, _ := json.Marshal(p)
		flush(w, `data: {"choices":[{"delta":{"content":`+string(b)+`}}]}`+"\n\n")
	}
}

const stopped = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"

func openAI() httpagent.Options { return httpagent.Options{Protocol: httpagent.OpenAI, Retries: -1} }

// callPieces is a streamed call: first its name, then its arguments in pieces.
func callPieces(id, name, args string) string {
	var out strings.Builder
	put := func(id, name, args string) {
		call := map[string]any{"index": 0, "function": map[string]any{"name": name, "arguments": args}}
		if id != "" {
			call["id"] = id
		}
		b, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": map[string]any{"content": nil, "tool_calls": []any{call}}}}})
		out.WriteString("data: " + string(b) + "\n\n")
	}
	put(id, name, "")
	put("", "", args[:len(args)/2])
	put("", "", args[len(args)/2:])
	return out.String()
}

// An endpoint that runs its tools itself continues in the same answer; each of its
// steps numbers the calls from zero.
func TestOpenAIRunsItsOwnTools(t *testing.T) {
	h := newServer(t, openAI(), func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, "Let me see.")
		flush(w, callPieces("call_1", "add", `{"a":1}`), callPieces("call_2", "add", `{"a":2}`))
		writeText(w, "Fo", "ur.")
		flush(w, stopped)
	})
	h.send("2+2?")
	h.awaitEnd(1)
	h.wantLog("user 2+2?", "text Let me see.", `calls add {"a":1}`, "got null", `calls add {"a":2}`, "got null", "used 7 3", "answers Four.", "ended done")
}

func TestOpenAIAnswers(t *testing.T) {
	var got struct {
		Model    string
		Stream   bool
		Messages []struct{ Role, Content string }
	}
	opt := openAI()
	opt.Model, opt.Instructions = "m", "Be brief."
	opt.Key = func() (string, error) { return "k-1", nil }
	opt.Headers = map[string]string{"X-Team": "blue"}
	h := newServer(t, opt, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer k-1" || r.Header.Get("X-Team") != "blue" {
			t.Errorf("called %s with %v", r.URL.Path, r.Header)
		}
		got.Messages = nil
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, ": hello\n\n", `data: {"choices":[{"delta":{"role":"assistant","reasoning_content":"Hm."}}]}`+"\n\n")
		writeText(w, "Fo", "ur, n", "aïve.")
		flush(w, stopped)
	})
	h.send("2+2?")
	h.awaitEnd(1)
	h.wantLog("user 2+2?", "thinking Hm.", "used 7 3", "answers Four, naïve.", "ended done")
	sure := chat.UserMessage{Text: "Sure?", Context: json.RawMessage(`{"system":"Speak French."}`)}
	if _, err := h.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(sure)}); err != nil {
		t.Fatal(err)
	}
	h.awaitEnd(2)
	h.mu.Lock()
	defer h.mu.Unlock()
	b, _ := json.Marshal(got.Messages)
	if want := `[{"Role":"system","Content":"Be brief."},{"Role":"system","Content":"Speak French."},{"Role":"user","Content":"2+2?"},{"Role":"assistant","Content":"Four, naïve."},{"Role":"user","Content":"Sure?"}]`; string(b) != want || !got.Stream || got.Model != "m" {
		t.Errorf("received %s", b)
	}
}

func TestOpenAIWholeCompletion(t *testing.T) {
	h := newServer(t, openAI(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[{"message":{"content":"Four."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	})
	h.send("2+2?")
	h.awaitEnd(1)
	h.wantLog("user 2+2?", "used 1 2", "answers Four.", "ended done")
}

func TestOpenAIToolForTheCallerFails(t *testing.T) {
	h := newServer(t, openAI(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"add","arguments":"{\"a\""}}]}}]}`+"\n\n",
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
	})
	h.send("add")
	if end := h.awaitEnd(1); end.Outcome != chat.Failed || !strings.Contains(end.Error, "tool add") {
		t.Fatalf("ended %s: %s", end.Outcome, end.Error)
	}
	if s := h.summary(); !strings.Contains(s, `calls add {"a":1}`) || !strings.Contains(s, "tool error agents of this kind run no tools") {
		t.Fatal(s)
	}
}

// Every failure ends in an event with its reason, and the next turn works.
func TestFailingEndpoints(t *testing.T) {
	away := http.RedirectHandler("http://127.0.0.1:1/elsewhere", http.StatusFound)
	for name, test := range map[string]struct {
		opt  func(*httpagent.Options)
		bad  http.HandlerFunc
		says string // in the error
		log  string // in the log
	}{
		"refuses": {bad: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":{"message":"no such model"}}`, 404)
		}, says: "status 404: no such model"},
		"wants a key":    {bad: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, says: "refused the key"},
		"is busy":        {bad: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, says: "busy"},
		"redirects":      {bad: away.ServeHTTP, says: "redirects to 127.0.0.1:1/elsewhere"},
		"cuts in a word": {bad: func(w http.ResponseWriter, _ *http.Request) { writeText(w, "Hello wor"); panic(http.ErrAbortHandler) }, says: "broke off", log: "partial Hello wor"},
		"ends in a word": {bad: func(w http.ResponseWriter, _ *http.Request) { writeText(w, "Hello wor") }, says: "broke off", log: "partial Hello wor"},
		"cuts in JSON":   {bad: func(w http.ResponseWriter, _ *http.Request) { writeText(w, "Hi"); flush(w, `data: {"choi`) }, says: "broke off", log: "partial Hi"},
		"sends no JSON":  {bad: func(w http.ResponseWriter, _ *http.Request) { writeText(w, "Hi"); flush(w, "data: {oops\n\n") }, says: "cannot be read", log: "partial Hi"},
		"reports": {bad: func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, "Hi")
			flush(w, "data: {\"error\":{\"message\":\"out of memory\"}}\n\n")
		}, says: "out of memory", log: "partial Hi"},
		"text nothing": {bad: func(w http.ResponseWriter, _ *http.Request) { writeText(w); flush(w, "data: [DONE]\n\n") }, says: "without saying anything"},
		"text too much": {opt: func(o *httpagent.Options) { o.Max = 1 << 20 }, bad: func(w http.ResponseWriter, _ *http.Request) {
			for range 300 {
				writeText(w, strings.Repeat("x", 8000))
			}
		}, says: "larger than 1 MiB", log: "partial xxx"},
		"has a long line": {bad: func(w http.ResponseWriter, _ *http.Request) { writeText(w, strings.Repeat("x", 5<<20)) }, says: "line of more than"},
		"hangs":           {opt: func(o *httpagent.Options) { o.Idle = 5 * time.Second }, bad: func(w http.ResponseWriter, r *http.Request) { writeText(w, "Hi"); <-r.Context().Done() }, says: "silent for 5s", log: "partial Hi"},
		"never begins":    {opt: func(o *httpagent.Options) { o.Wait = 50 * time.Millisecond }, bad: func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, says: "did not answer in time"},
		"never ends": {opt: func(o *httpagent.Options) { o.Limit = 100 * time.Millisecond }, bad: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				flush(w, ": ping\n\n")
				time.Sleep(time.Millisecond) // a slow trickle, not a wait for something
			}
		}, says: "did not finish within 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			opt := openAI()
			if test.opt != nil {
				test.opt(&opt)
			}
			var calls atomic.Int32
			h := newServer(t, opt, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					test.bad(w, r)
					return
				}
				writeText(w, "Fine.")
				flush(w, stopped)
			})
			h.send("Hello?")
			end := h.awaitEnd(1)
			if end.Outcome != chat.Failed || !strings.Contains(end.Error, test.says) {
				t.Fatalf("ended %s: %s", end.Outcome, end.Error)
			}
			if s := h.summary(); !strings.Contains(s, test.log) {
				t.Fatalf("the log says\n%s", s)
			}
			if opt.Limit > 0 {
				return // too short for the rest on a busy machine
			}
			h.send("And now?")
			if end := h.awaitEnd(2); end.Outcome != chat.Done && opt.Idle == 0 && opt.Wait == 0 {
				t.Fatalf("the conversation is stuck: %s", h.summary())
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	h := newServer(t, openAI(), func(http.ResponseWriter, *http.Request) {})
	h.kill()
	h.opt.URL = "http://127.0.0.1:1/v1"
	h.start()
	h.send("Hello?")
	if end := h.awaitEnd(1); end.Outcome != chat.Failed || !strings.Contains(end.Error, "is it running?") {
		t.Fatalf("ended %s: %s", end.Outcome, end.Error)
	}
	if err := h.agent.Health(); err == nil || h.agent.Probe(ctx) == nil {
		t.Fatal("the agent thinks that it is well")
	}
}

// A call that the endpoint refuses as busy is repeated.
func TestRetry(t *testing.T) {
	opt := openAI()
	opt.Retries = 1
	var calls atomic.Int32
	h := newServer(t, opt, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
			return
		}
		writeText(w, "Fine.")
		flush(w, stopped)
	})
	h.send("Hello?")
	h.awaitEnd(1)
	h.wantLog("user Hello?", "used 7 3", "answers Fine.", "ended done")
}

func TestStop(t *testing.T) {
	gone := make(chan struct{})
	h := newServer(t, openAI(), func(w http.ResponseWriter, r *http.Request) {
		writeText(w, "One ", "two ")
		<-r.Context().Done()
		close(gone)
	})
	h.send("count")
	h.awaitPreview("One two ")
	if _, err := h.Stop(ctx, ann, "s", "", "enough"); err != nil {
		t.Fatal(err)
	}
	h.awaitEnd(1)
	<-gone // the endpoint is let go too
	h.wantLog("user count", "turn.stop_requested", "partial One two ", "ended stopped")
}
