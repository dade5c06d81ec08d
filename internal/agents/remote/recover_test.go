package remote_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/remote"
)

// A server that dies in the middle calls the endpoint again. What was shown is
// neither taken back nor doubled.
func TestRecover(t *testing.T) {
	for name, test := range map[string]struct {
		second []string
		story  []string
	}{
		"with the same text":  {[]string{"The capital ", "is Paris."}, []string{"answers The capital is Paris."}},
		"in other pieces":     {[]string{"The", " capital is", " Paris."}, []string{"answers The capital is Paris."}},
		"with another text":   {[]string{"Paris", " it is."}, []string{"said in part The capital is Pa", "answers Paris it is."}},
		"with another ending": {[]string{"The capital is", " Rome."}, []string{"said in part The capital is Pa", "answers The capital is Rome."}},
		"with less":           {[]string{"The capital"}, []string{"said in part The capital is Pa", "answers The capital"}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			h := newServer(t, openAI(), func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					words(w, "The capital ", "is Pa")
					<-r.Context().Done()
					return
				}
				words(w, test.second...)
				flush(w, "data: [DONE]\n\n")
			})
			h.say("capital?")
			h.seen("is Pa")
			h.kill()
			h.start()
			h.ends(1)
			h.want(append(append([]string{"user capital?"}, test.story...), "ended done")...)
		})
	}
}

// Finished blocks and tools of an earlier attempt are followed as long as the
// endpoint says the same.
func TestRecoverFollowsTheLog(t *testing.T) {
	const first = `{"type":"thinking","text":"Hm."}
{"type":"text","text":"Looking. "}
{"type":"tool_call","call_id":"1","tool":"look","params":{"at":"sky"}}
{"type":"tool_result","call_id":"1","result":"blue"}
{"type":"text","text":"It is bl"}
`
	for name, test := range map[string]struct {
		second string
		story  []string
	}{
		"same": {
			first + `{"type":"text","text":"ue."}` + "\n" + `{"type":"done"}` + "\n",
			[]string{"thinks Hm.", "says Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "answers It is blue."},
		},
		"continues": {
			`{"type":"continue"}` + "\n" + `{"type":"text","text":"ue."}` + "\n" + `{"type":"done"}`,
			[]string{"thinks Hm.", "says Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "answers It is blue."},
		},
		"other tool": {
			`{"type":"thinking","text":"Hm."}
{"type":"text","text":"Looking. "}
{"type":"tool_call","call_id":"1","tool":"look","params":{"at":"sea"}}
{"type":"tool_result","call_id":"1","result":"green"}
{"type":"text","text":"Green."}
{"type":"done"}`,
			[]string{"thinks Hm.", "says Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "said in part It is bl", `calls look {"at":"sea"}`, `got "green"`, "answers Green."},
		},
		"other text": {
			`{"type":"thinking","text":"Hm."}
{"type":"text","text":"Looking up."}
{"type":"done"}`,
			[]string{"thinks Hm.", "says Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "said in part It is bl", "answers Looking up."},
		},
		"other order": {
			`{"type":"text","text":"Blue."}
{"type":"done"}`,
			[]string{"thinks Hm.", "says Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "said in part It is bl", "answers Blue."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			h := newServer(t, remote.Options{Protocol: remote.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					flush(w, first)
					<-r.Context().Done()
					return
				}
				flush(w, test.second)
			})
			h.say("sky?")
			h.seen("It is bl")
			h.kill()
			h.start()
			if end := h.ends(1); end.Outcome != chat.Done {
				t.Fatal(h.story())
			}
			h.want(append(append([]string{"user sky?"}, test.story...), "ended done")...)
		})
	}
}

// Where calling again could repeat what tools did, the turn ends, unless the
// operator says that it may.
func TestRecoverIsCareful(t *testing.T) {
	for mode, want := range map[string]chat.Outcome{"": chat.Interrupted, remote.RecoverNever: chat.Interrupted, remote.RecoverAlways: chat.Done} {
		var calls atomic.Int32
		h := newServer(t, remote.Options{Protocol: remote.NeMo, Recover: mode}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			flush(w, "intermediate_data: {\"id\":\"1\",\"name\":\"Tool: pay\",\"payload\":\"**Input:**\\n```json\\n{}\\n```\"}\n\n")
			if calls.Add(1) == 1 {
				words(w, "Pay")
				<-r.Context().Done()
				return
			}
			words(w, "Paid.")
			flush(w, "data: [DONE]\n\n")
		})
		h.say("pay")
		h.seen("Pay")
		h.kill()
		h.start()
		if end := h.ends(1); end.Outcome != want {
			t.Errorf("with %q it ended %s:\n%s", mode, end.Outcome, h.story())
		}
		h.kill()
	}
}

// Wherever the server dies, and it dies twice, an endpoint that says the same
// again gives the log of a server that never died.
func TestRecoverAnywhere(t *testing.T) {
	want := []string{
		"user go", "status Reading", "thinks Hm, hm.", "says Looking. ", `calls look {"at":"sky"}`, `got "blue"`, "says Again. ", "remote.round",
		"asks text Sure?", "answer yes", "agent.plan", "used 1 2", "answers It is blue.", "ended done",
	}
	for at := int64(2); ; at++ {
		h := newServer(t, remote.Options{Protocol: remote.NDJSON}, func(w http.ResponseWriter, r *http.Request) {
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
		h.gate.left.Store(at)
		died := 0
		if _, err := h.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "go"}).As("c-1")}); err != nil {
			t.Fatal(err)
		}
		for h.dies() {
			died++
			h.kill()
			h.start()
			if died == 1 {
				h.gate.left.Store(at)
			}
		}
		h.ends(1)
		h.want(want...)
		h.kill()
		if died == 0 {
			if at < 15 {
				t.Fatalf("it died in no more than %d places", at)
			}
			return
		}
	}
}
