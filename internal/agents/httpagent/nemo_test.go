package httpagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
)

func step(id, name, payload string) string {
	b, _ := json.Marshal(map[string]string{"id": id, "parent_id": "root", "type": "markdown", "name": name, "payload": payload})
	return "intermediate_data: " + string(b) + "\n\n"
}

const (
	stepIn  = "**Input:**\n```json\n{\"a\": 2, \"b\": \"&lt;\"}\n```"
	stepOut = stepIn + "\n\n**Output:**\n```json\n4\n```"
)

func TestNeMoStream(t *testing.T) {
	h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/chat/stream" || r.Header.Get("Conversation-Id") != "s" {
			t.Errorf("called %s with %v", r.URL.Path, r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, step("w", "Function Start: <workflow>", "**Function Input:**\n```\nhi\n```"), step("m", "llama", "**Input:** x"), step("m", "llama", "**Input:** x y"), step("7", "Tool: calc", stepIn), step("7", "Tool: calc", stepOut),
			step("8", "Function Start: react", "**Function Input:**\n```\nhi\n```"), step("8", "Function Complete: react", "**Function Input:**\n```\nhi\n```**Function Output:**\n```\nok\n```"))
		writeText(w, "Fo", "ur.")
		flush(w, "observability_trace: {\"observability_trace_id\":\"t-9\"}\n\n", `data: {"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
	h.send("2+2?")
	h.awaitEnd(1)
	h.wantLog("user 2+2?", "status llama", `calls calc {"a":2,"b":"<"}`, "got 4", `calls react {"input":"hi"}`, `got "ok"`,
		"agent.trace", "answers Four.", "ended done")
}

// A tool-calling agent streams the calls of its model, and sends the results in
// steps. Each call is stored once, and the last text is the answer.
func TestNeMoStreamStoresEachCallOnce(t *testing.T) {
	h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo}, func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, "Let me", " see.")
		flush(w, callPieces("call_1", "clock", `{"zone":"UTC"}`), step("7", "Function Start: clock", stepIn), step("7", "Function Complete: clock", stepOut))
		writeText(w, "Four", " o'clock.")
		flush(w, `data: {"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
	h.send("What time is it?")
	h.awaitEnd(1)
	h.wantLog("user What time is it?", "text Let me see.", `calls clock {"a":2,"b":"<"}`, "got 4", "answers Four o'clock.", "ended done")
}

func TestNeMoStreamError(t *testing.T) {
	h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo}, func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, "Hm")
		flush(w, step("7", "Tool: calc", stepIn), `{"code":"workflow_error","message":"bad input","details":"ValueError"}`+"\n\n")
	})
	h.send("2+2?")
	if end := h.awaitEnd(1); end.Outcome != chat.Failed || !strings.Contains(end.Error, "bad input") {
		t.Fatalf("ended %s: %s", end.Outcome, end.Error)
	}
	if s := h.summary(); !strings.Contains(s, "tool error") {
		t.Fatal(s)
	}
}

// The answer to a prompt over HTTP is posted to its response_url.
func TestNeMoStreamPrompts(t *testing.T) {
	answers := make(chan string, 1)
	h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo, URL: "/v1/chat/stream"}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/executions/") {
			b, _ := io.ReadAll(r.Body)
			w.WriteHeader(204)
			answers <- string(b)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, "event: interaction_required\ndata: "+`{"event_type":"interaction_required","execution_id":"e1","interaction_id":"i1","prompt":{"input_type":"radio","text":"How?","options":[{"id":"a","label":"Mail","value":"email","description":""},{"id":"b","label":"SMS","value":"sms","description":""}]},"response_url":"/executions/e1/interactions/i1/response"}`+"\n\n")
		select {
		case got := <-answers:
			if !strings.Contains(got, `"selected_option":{"description":"","id":"b","label":"SMS","value":"sms"}`) || !strings.Contains(got, `"type":"radio"`) {
				t.Errorf("received %s", got)
			}
			writeText(w, "By sms.")
		case <-r.Context().Done():
		}
	})
	h.send("tell me")
	h.answer(h.awaitPrompt(1), chat.Answer{Values: []string{"sms"}})
	h.awaitEnd(1)
	h.wantLog("user tell me", "asks radio How?", "answer sms", "answers By sms.", "ended done")
}

// toolkit is the WebSocket of a NeMo server. It has one run per conversation. A run
// ends when it writes to a closed socket; its open prompt is sent again on a new
// one.
type toolkit struct {
	t *testing.T

	mu      sync.Mutex
	prompt  string // the open one, as a frame
	waiting chan string
	conn    *websocket.Conn
	runs    int
	dialled []string
}

func (k *toolkit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		k.t.Error(err)
		return
	}
	defer conn.CloseNow()
	k.mu.Lock()
	k.dialled = append(k.dialled, r.URL.RequestURI())
	again := k.prompt
	if r.URL.Query().Get("conversation_id") != "" && again != "" {
		k.conn = conn
		k.send(again)
	}
	k.mu.Unlock()
	for {
		_, b, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		var f struct {
			Type, ID string
			Schema   string `json:"schema_type"`
			Conv     string `json:"conversation_id"`
			Content  struct {
				Messages []struct {
					Role    string
					Content []struct{ Type, Text string }
				}
			}
		}
		if err := json.Unmarshal(b, &f); err != nil {
			k.t.Error(err)
			return
		}
		last := f.Content.Messages[len(f.Content.Messages)-1].Content[0].Text
		k.mu.Lock()
		switch f.Type {
		case "user_message":
			if f.Schema != "chat_stream" || f.Conv != "s" {
				k.t.Errorf("was sent %s", b)
			}
			k.runs++
			k.conn = conn
			go k.run(f.ID, last, k.runs)
		case "user_interaction_message":
			k.prompt = ""
			k.waiting <- last
		}
		k.mu.Unlock()
	}
}

// send writes to the socket of the run. The caller holds mu.
func (k *toolkit) send(frame string) bool {
	return k.conn.Write(context.Background(), websocket.MessageText, []byte(frame)) == nil
}

func (k *toolkit) frame(typ, id, parent, status, content string) string {
	return fmt.Sprintf(`{"type":%q,"id":%q,"thread_id":"default","parent_id":%q,"conversation_id":"s","content":%s,"status":%q,"timestamp":"x"}`, typ, id, parent, content, status)
}

func (k *toolkit) run(id, text string, run int) {
	say := func(frame string) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.send(frame)
	}
	if strings.HasPrefix(text, "fail") {
		say(k.frame("error_message", "e", id, "in_progress", `{"code":"workflow_error","message":"ValueError","details":"bad input"}`))
		say(k.frame("system_response_message", "t", id, "complete", `{"text":null}`))
		return
	}
	content, _ := json.Marshal(map[string]string{"name": "Tool: look", "payload": stepIn})
	say(k.frame("system_intermediate_message", "s1", "root", "in_progress", string(content)))
	content, _ = json.Marshal(map[string]string{"name": "Tool: look", "payload": stepOut})
	say(k.frame("system_intermediate_message", "s1", "root", "in_progress", string(content)))
	say(k.frame("system_response_message", "old", "m-of-an-earlier-run", "in_progress", `{"text":"stale"}`))
	say(k.frame("system_response_message", "t", id, "in_progress", `{"text":"First "}`))
	k.mu.Lock()
	k.prompt = k.frame("system_interaction_message", "p", id, "in_progress", `{"input_type":"binary_choice","text":"Go on?","timeout":600,"options":[{"id":"default","label":"Yes","value":"continue"},{"id":"default","label":"No","value":"cancel"}]}`)
	k.send(k.prompt)
	k.mu.Unlock()
	answer := <-k.waiting
	if !say(k.frame("system_response_message", "t", id, "in_progress", `{"text":"then `+answer+`."}`)) {
		return
	}
	say(k.frame("system_response_message", "t", id, "complete", `{"text":null}`))
}

func TestNeMoSocket(t *testing.T) {
	for _, crash := range []bool{false, true} {
		k := &toolkit{t: t, waiting: make(chan string, 1)}
		h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo, Socket: true}, k.ServeHTTP)
		h.send("go")
		p := h.awaitPrompt(1)
		if p.Deadline == 0 || len(p.Input.Options) != 2 {
			t.Errorf("asked %+v", p.Input)
		}
		if crash {
			// The run still waits on the server, and is found again.
			h.kill()
			h.start()
		}
		h.answer(p, chat.Answer{Text: "Yes"})
		h.awaitEnd(1)
		h.wantLog("user go", `calls look {"a":2,"b":"<"}`, "got 4", "text First ", "asks binary_choice Go on?", "answer continue", "answers then continue.", "ended done")
		k.mu.Lock()
		if k.runs != 1 {
			t.Errorf("the workflow ran %d times", k.runs)
		}
		k.mu.Unlock()
		h.kill()
	}
}

// A connection that breaks while a prompt is open is made again.
func TestNeMoSocketReconnectsDuringPrompt(t *testing.T) {
	k := &toolkit{t: t, waiting: make(chan string, 1)}
	h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo, Socket: true}, k.ServeHTTP)
	h.send("go")
	p := h.awaitPrompt(1)
	k.mu.Lock()
	k.conn.CloseNow()
	k.mu.Unlock()
	h.answer(p, chat.Answer{Text: "No"})
	h.awaitEnd(1)
	if s := h.summary(); !strings.Contains(s, "answers then cancel.") {
		t.Fatal(s)
	}
}

func TestNeMoSocketFails(t *testing.T) {
	k := &toolkit{t: t, waiting: make(chan string, 1)}
	h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo, Socket: true}, k.ServeHTTP)
	h.send("fail")
	if end := h.awaitEnd(1); end.Outcome != chat.Failed || !strings.Contains(end.Error, "ValueError: bad input") {
		t.Fatalf("ended %s: %s", end.Outcome, end.Error)
	}
}

// A workflow without frames is waited for while the server answers pings, but not
// longer than the limit.
func TestNeMoSocketSilence(t *testing.T) {
	for limit, want := range map[time.Duration]chat.Outcome{time.Hour: chat.Done, 300 * time.Millisecond: chat.Failed} {
		h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo, Socket: true, Wait: 50 * time.Millisecond, Idle: 50 * time.Millisecond, Limit: limit}, func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			_, b, err := conn.Read(r.Context())
			if err != nil {
				t.Error(err)
				return
			}
			var f struct{ ID string }
			if err := json.Unmarshal(b, &f); err != nil {
				t.Error(err)
			}
			k := &toolkit{t: t, conn: conn}
			ctx := conn.CloseRead(r.Context()) // answers pings
			if limit < time.Hour {
				<-ctx.Done()
				return
			}
			<-time.After(400 * time.Millisecond) // the silence itself
			k.mu.Lock()
			defer k.mu.Unlock()
			k.send(k.frame("system_response_message", "t", f.ID, "in_progress", `{"text":"At last."}`))
			k.send(k.frame("system_response_message", "t", f.ID, "complete", `{"text":null}`))
			<-ctx.Done()
		})
		h.send("go")
		if end := h.awaitEnd(1); end.Outcome != want {
			t.Errorf("with a limit of %s it ended %s: %s", limit, end.Outcome, end.Error)
		}
		h.kill()
	}
}
