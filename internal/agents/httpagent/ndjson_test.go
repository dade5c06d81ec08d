package httpagent_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
)

// call is the request to an endpoint.
type call struct {
	Protocol string `json:"protocol"`
	Session  string `json:"session_id"`
	Attempt  int    `json:"attempt"`
	Round    int    `json:"round"`
	Text     string `json:"text"`
	Answers  []struct {
		RequestID string          `json:"request_id"`
		Outcome   string          `json:"outcome"`
		Text      string          `json:"text"`
		Decisions []chat.Decision `json:"decisions"`
	} `json:"answers"`
	Events []chat.Event `json:"events"`
	Open   []struct{ Kind, Text string }

	Messages []struct{ Role, Content string }
}

func read(t *testing.T, r *http.Request) (c call) {
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		t.Error(err)
	}
	return c
}

func TestNDJSONLineTypes(t *testing.T) {
	h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
		if c := read(t, r); c.Protocol != "parley.ndjson/1" || c.Session != "s" || c.Text != "go" || c.Attempt != 1 || c.Round != 1 {
			t.Errorf("received %+v", c)
		}
		flush(w, `{"type":"status","message":"Reading"}

{"type":"agent.thinking","text":"Hm"}
{"type":"plan","tasks":[{"id":"1","title":"Read","status":"done"}]}
{"type":"tool_call","call_id":"1","tool":"add","params":{"a":1}}
{"type":"ping"}
{"type":"tool_progress","call_id":"1","done":1,"total":2}
{"type":"tool_error","call_id":"1","error":"no numbers"}
{"type":"artifact","artifact_type":"table","title":"T","data":{"rows":[]}}
{"type":"usage","input_tokens":5,"output_tokens":6}
{"type":"text","text":"Do"}
{"type":"text","text":"ne."}
{"type":"done"}
`)
	})
	h.send("go")
	h.awaitEnd(1)
	h.wantLog("user go", "status Reading", "agent.plan", "thinking Hm", `calls add {"a":1}`, "agent.tool_progress", "tool error no numbers", "agent.artifact",
		"used 5 6", "answers Done.", "ended done")
	h.await("the progress of the call", func() bool {
		var id string
		for _, e := range h.events {
			switch b := e.Body.(type) {
			case chat.AgentToolCall:
				id = b.CallID
			case chat.AgentToolProgress:
				return b.CallID == id
			}
		}
		return false
	})
}

// A prompt ends the call, and the next call has the answer, also after a crash in
// between.
func TestNDJSONPrompts(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
			switch c := read(t, r); len(c.Answers) {
			case 0:
				flush(w, `{"type":"text","text":"Let me ask. "}
{"type":"input_request","request_id":"city","input_type":"text","text":"Which city?"}
{"type":"approval_request","request_id":"pay","calls":[{"call_id":"1","tool":"pay","params":{}}]}
{"type":"done"}
`)
			default:
				if n := len(c.Messages); n != 2 || c.Messages[1].Role != "assistant" || !strings.HasPrefix(c.Messages[1].Content, "Let me ask. ") {
					t.Errorf("received %+v", c.Messages)
				}
				if c.Answers[0].RequestID != "city" || c.Answers[1].RequestID != "pay" || len(c.Answers[1].Decisions) != 1 || c.Answers[1].Decisions[0].Approve || c.Answers[1].Decisions[0].CallID != "1" {
					t.Errorf("received %+v", c)
				}
				flush(w, `{"type":"text","text":"So `+c.Answers[0].Text+`."}`+"\n"+`{"type":"done"}`+"\n")
			}
		})
		h.send("weather")
		city, pay := h.awaitPrompt(1), h.awaitPrompt(2)
		if crash {
			h.kill()
			h.start()
		}
		if id := pay.Approval.Calls[0].CallID; id != "c3-1" {
			t.Errorf("the call is %s, which another turn may have too", id)
		}
		h.answer(pay, chat.Answer{Decisions: []chat.Decision{{CallID: "c3-1"}}})
		h.answer(city, chat.Answer{Text: "Bern"})
		h.awaitEnd(1)
		h.wantLog("user weather", "text Let me ask. ", "remote.round", "asks text Which city?", "agent.approval_request", "user.approval_response",
			"answer Bern", "answers So Bern.", "ended done")
		h.kill()
	}
}

// A crash during the second round repeats neither the first round nor shown text.
func TestNDJSONCrashAfterAnswer(t *testing.T) {
	begun := make(chan call, 4)
	h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
		c := read(t, r)
		begun <- c
		switch {
		case c.Round == 1:
			flush(w, `{"type":"input_request","input_type":"text","text":"Name?"}`+"\n"+`{"type":"done"}`+"\n")
		case c.Attempt == 1:
			flush(w, `{"type":"text","text":"Hello A"}`+"\n")
			<-r.Context().Done()
		default:
			flush(w, `{"type":"text","text":"Hello Ada"}`+"\n"+`{"type":"done"}`+"\n")
		}
	})
	h.send("hi")
	h.answer(h.awaitPrompt(1), chat.Answer{Text: "Ada"})
	h.awaitPreview("Hello A")
	h.kill()
	h.start()
	h.awaitEnd(1)
	h.wantLog("user hi", "remote.round", "asks text Name?", "answer Ada", "answers Hello Ada", "ended done")
	close(begun)
	rounds := ""
	for c := range begun {
		rounds += string(rune('0' + c.Round))
		if c.Attempt == 2 && (len(c.Open) != 1 || c.Open[0].Text != "Hello A" || len(c.Events) == 0 || c.Answers[0].Text != "Ada") {
			t.Errorf("received %+v", c)
		}
	}
	if rounds != "122" {
		t.Errorf("called in rounds %s", rounds)
	}
}

// A call has the id that a person has approved, also when the server was killed before the agent made it.
func TestApprovedCallsKeepTheirIDs(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
			if read(t, r).Round == 1 {
				flush(w, `{"type":"approval_request","calls":[{"call_id":"1","tool":"pay","params":{}}]}`+"\n"+`{"type":"done"}`+"\n")
				return
			}
			flush(w, `{"type":"tool_call","call_id":"1","tool":"pay","params":{}}`+"\n"+`{"type":"tool_result","call_id":"1","result":"paid"}`+"\n"+
				`{"type":"tool_call","call_id":"2","tool":"bow","params":{}}`+"\n"+`{"type":"done"}`+"\n")
		})
		h.send("pay")
		asked := h.awaitPrompt(1)
		if crash {
			h.kill()
			h.start()
		}
		approved := asked.Approval.Calls[0].CallID
		h.answer(asked, chat.Answer{Decisions: []chat.Decision{{CallID: approved, Approve: true}}})
		h.awaitEnd(1)
		var made []string
		h.await("the calls", func() bool {
			made = nil
			for _, e := range h.events {
				if b, ok := e.Body.(chat.AgentToolCall); ok {
					made = append(made, b.CallID)
				}
			}
			return true
		})
		if len(made) != 2 || made[0] != approved || made[1] == approved {
			t.Errorf("crash %t: %s was approved, %v were made", crash, approved, made)
		}
		h.kill()
	}
}

func TestNDJSONBadLines(t *testing.T) {
	for line, says := range map[string]string{
		`{"type":"tekst"}`:                         "a line of type tekst",
		`nonsense`:                                 "no JSON object",
		`{"type":"plan","tasks":7}`:                "agent.plan",
		`{"type":"input_request","input_type":7}`:  "agent.input_request",
		`{"type":"fail","message":"out of ideas"}`: "out of ideas",
		``: "broke off",
	} {
		h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON}, func(w http.ResponseWriter, _ *http.Request) {
			flush(w, `{"type":"text","text":"Hi"}`+"\n"+line+"\n")
		})
		h.send("go")
		if end := h.awaitEnd(1); end.Outcome != chat.Failed || !strings.Contains(end.Error, says) {
			t.Errorf("%s: ended %s %s", line, end.Outcome, end.Error)
		}
		if s := h.summary(); !strings.Contains(s, "partial Hi") {
			t.Error(s)
		}
		h.kill()
	}
}
