package httpagent_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
)

// After a crash the endpoint is called again. Shown text is neither removed nor
// repeated.
func TestCrashRepeatsNoText(t *testing.T) {
	for name, test := range map[string]struct {
		second []string
		log    []string
	}{
		"with the same text":  {[]string{"The capital ", "is Paris."}, []string{"answers The capital is Paris."}},
		"in other pieces":     {[]string{"The", " capital is", " Paris."}, []string{"answers The capital is Paris."}},
		"with another text":   {[]string{"Paris", " it is."}, []string{"partial The capital is Pa", "answers Paris it is."}},
		"with another ending": {[]string{"The capital is", " Rome."}, []string{"partial The capital is Pa", "answers The capital is Rome."}},
		"with less":           {[]string{"The capital"}, []string{"partial The capital is Pa", "answers The capital"}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			h := newServer(t, openAI(), func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					writeText(w, "The capital ", "is Pa")
					<-r.Context().Done()
					return
				}
				writeText(w, test.second...)
				flush(w, "data: [DONE]\n\n")
			})
			h.send("capital?")
			h.awaitPreview("is Pa")
			h.kill()
			h.start()
			h.awaitEnd(1)
			h.wantLog(append(append([]string{"user capital?"}, test.log...), "ended done")...)
		})
	}
}

// After a crash the stored blocks and tool calls are kept as long as the endpoint
// repeats them.
func TestCrashRepeatsNoStoredEvents(t *testing.T) {
	const first = `{"type":"thinking","text":"Hm."}
{"type":"text","text":"Looking. "}
{"type":"tool_call","call_id":"1","tool":"look","params":{"at":"sky"}}
{"type":"tool_result","call_id":"1","result":"blue"}
{"type":"text","text":"It is bl"}
`
	for name, test := range map[string]struct {
		second string
		log    []string
	}{
		"same": {
			first + `{"type":"text","text":"ue."}` + "\n" + `{"type":"done"}` + "\n",
			[]string{"thinking Hm.", "text Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "answers It is blue."},
		},
		"continues": {
			`{"type":"continue"}` + "\n" + `{"type":"text","text":"ue."}` + "\n" + `{"type":"done"}`,
			[]string{"thinking Hm.", "text Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "answers It is blue."},
		},
		"other tool": {
			`{"type":"thinking","text":"Hm."}
{"type":"text","text":"Looking. "}
{"type":"tool_call","call_id":"1","tool":"look","params":{"at":"sea"}}
{"type":"tool_result","call_id":"1","result":"green"}
{"type":"text","text":"Green."}
{"type":"done"}`,
			[]string{"thinking Hm.", "text Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "partial It is bl", `calls look {"at":"sea"}`, `got "green"`, "answers Green."},
		},
		"other text": {
			`{"type":"thinking","text":"Hm."}
{"type":"text","text":"Looking up."}
{"type":"done"}`,
			[]string{"thinking Hm.", "text Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "partial It is bl", "answers Looking up."},
		},
		"other order": {
			`{"type":"text","text":"Blue."}
{"type":"done"}`,
			[]string{"thinking Hm.", "text Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "partial It is bl", "answers Blue."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					flush(w, first)
					<-r.Context().Done()
					return
				}
				flush(w, test.second)
			})
			h.send("sky?")
			h.awaitPreview("It is bl")
			h.kill()
			h.start()
			if end := h.awaitEnd(1); end.Outcome != chat.Done {
				t.Fatal(h.summary())
			}
			h.wantLog(append(append([]string{"user sky?"}, test.log...), "ended done")...)
		})
	}
}

// After a crash, a turn in which a tool was used ends as interrupted, unless the
// configuration allows another call.
func TestCrashAfterToolUseInterrupts(t *testing.T) {
	for mode, want := range map[string]chat.Outcome{"": chat.Interrupted, httpagent.RecoverNever: chat.Interrupted, httpagent.RecoverAlways: chat.Done} {
		var calls atomic.Int32
		h := newServer(t, httpagent.Options{Protocol: httpagent.NeMo, Recover: mode}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			flush(w, "intermediate_data: {\"id\":\"1\",\"name\":\"Tool: pay\",\"payload\":\"**Input:**\\n```json\\n{}\\n```\"}\n\n")
			if calls.Add(1) == 1 {
				writeText(w, "Pay")
				<-r.Context().Done()
				return
			}
			writeText(w, "Paid.")
			flush(w, "data: [DONE]\n\n")
		})
		h.send("pay")
		h.awaitPreview("Pay")
		h.kill()
		h.start()
		if end := h.awaitEnd(1); end.Outcome != want {
			t.Errorf("with %q it ended %s:\n%s", mode, end.Outcome, h.summary())
		}
		h.kill()
	}
}

// Two crashes at any write give the same log as none, if the endpoint repeats its
// answer.
func TestCrashAtEveryWrite(t *testing.T) {
	want := []string{
		"user go", "status Reading", "thinking Hm, hm.", "text Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "text Again. ", "remote.round",
		"asks text Sure?", "answer yes", "agent.plan", "used 1 2", "answers It is blue.", "ended done",
	}
	for at := int64(2); ; at++ {
		h := newServer(t, httpagent.Options{Protocol: httpagent.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
			if c := read(t, r); c.Round == 1 {
				flush(w, `{"type":"status","message":"Reading"}`+"\n", `{"type":"thinking","text":"Hm, "}`+"\n", `{"type":"thinking","text":"hm."}`+"\n",
					`{"type":"text","text":"Look"}`+"\n", `{"type":"text","text":"ing. "}`+"\n", `{"type":"tool_call","call_id":"1","tool":"look","params":{"at":"sky"}}`+"\n",
					`{"type":"tool_result","call_id":"1","result":"blue"}`+"\n", `{"type":"text","text":"Again. "}`+"\n",
					`{"type":"input_request","input_type":"text","text":"Sure?"}`+"\n", `{"type":"done"}`+"\n")
				return
			}
			flush(w, `{"type":"text","text":"It "}`+"\n", `{"type":"text","text":"is bl"}`+"\n", `{"type":"plan","tasks":[]}`+"\n", `{"type":"text","text":"ue."}`+"\n",
				`{"type":"usage","input_tokens":1,"output_tokens":2}`+"\n", `{"type":"done"}`+"\n")
		})
		h.journal.KillAfter(at - 1)
		kills := 0
		if _, err := h.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "go"}).As("c-1")}); err != nil {
			t.Fatal(err)
		}
		for h.awaitKill() {
			kills++
			h.kill()
			h.start()
			if kills == 1 {
				h.journal.KillAfter(at - 1)
			}
		}
		h.awaitEnd(1)
		h.wantLog(want...)
		h.kill()
		if kills == 0 {
			if at < 15 {
				t.Fatalf("the server was killed at only %d writes", at)
			}
			return
		}
	}
}
