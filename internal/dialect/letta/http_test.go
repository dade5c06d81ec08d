package letta

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// detailOf returns the text of an error.
func detailOf(body string) string {
	var d struct{ Detail any }
	_ = json.Unmarshal([]byte(body), &d)
	return fmt.Sprint(d.Detail)
}

// Objects of others are answered like objects that do not exist.
func TestObjectsOfOthersAreNotFound(t *testing.T) {
	w := newTestServer(t, setup{secured: true})
	w.user = "alice"
	a := w.agent("")
	said := w.say(a, "hello")
	conv := get[object](w, "POST", "/v1/conversations/?agent_id="+a, `{"summary":"mine"}`)["id"].(string)
	who := get[object](w, "POST", "/v1/identities/", `{"identifier_key":"k","name":"n","identity_type":"user"}`)["id"].(string)
	mine := []string{
		"/v1/agents/" + a, "/v1/agents/" + a + "/messages", "/v1/conversations/" + conv, "/v1/conversations/" + conv + "/messages",
		"/v1/conversations/" + a + "/messages", "/v1/runs/" + said.Messages[0].Run, "/v1/runs/" + said.Messages[0].Run + "/steps",
		"/v1/runs/" + said.Messages[0].Run + "/usage", "/v1/messages/" + said.Messages[0].ID, "/v1/identities/" + who,
		"/v1/agents/" + a + "/messages?conversation_id=" + conv, "/v1/runs/?agent_id=" + a,
	}
	for _, path := range mine {
		if code, body := w.do("GET", path, ""); code != http.StatusOK {
			t.Errorf("alice %s: %d %s", path, code, body)
		}
	}
	w.user = "bob"
	for _, path := range mine {
		if code, body := w.do("GET", path, ""); code != http.StatusNotFound {
			t.Errorf("bob %s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/v1/agents/", "/v1/conversations/", "/v1/runs/", "/v1/identities/"} {
		if list := get[[]any](w, "GET", path, ""); len(list) != 0 {
			t.Errorf("bob sees %v at %s", list, path)
		}
	}
	for path, body := range map[string]string{
		"/v1/agents/" + a + "/messages": message("x", ""), "/v1/conversations/" + conv + "/messages": message("x", ""),
		"/v1/runs/" + said.Messages[0].Run + "/stream": "{}", "/v1/agents/" + a + "/messages/cancel": "{}", "/v1/conversations/?agent_id=" + a: "{}",
	} {
		if code, b := w.do("POST", path, body); code != http.StatusNotFound {
			t.Errorf("bob posts to %s: %d %s", path, code, b)
		}
	}
	if code, _ := w.do("DELETE", "/v1/agents/"+a, ""); code != http.StatusNotFound {
		t.Errorf("bob deletes: %d", code)
	}
	// System sessions are not conversations.
	if code, _ := w.do("GET", "/v1/conversations/sys-letta-book/messages", ""); code != http.StatusNotFound {
		t.Errorf("the index: %d", code)
	}
	w.user = ""
	if code, body := w.do("GET", "/v1/agents/", ""); code != http.StatusUnauthorized || detailOf(body) != "Unauthorized" {
		t.Errorf("without a token: %d %s", code, body)
	}
	for _, path := range []string{"/v1/health/", "/v1/health", "/latest/health/"} {
		if code, body := w.do("GET", path, ""); code != http.StatusOK || !strings.Contains(body, `"status":"ok"`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// Agents with their changes, conversations, identities, groups and open approvals are there after a restart.
func TestEverythingIsThereAfterARestart(t *testing.T) {
	w := newTestServer(t, setup{})
	a := w.agent(`{"name":"ann","model":"parley/demo","tags":["x"]}`)
	gone := w.agent("")
	made := get[object](w, "GET", "/v1/agents/"+a, "")["created_at"]
	if changed := get[object](w, "PATCH", "/v1/agents/"+a, `{"description":"changed"}`); changed["created_at"] != made || changed["updated_at"] == made {
		t.Errorf("made at %v: %v", made, changed)
	}
	get[object](w, "DELETE", "/v1/agents/"+gone, "")
	conv := get[object](w, "POST", "/v1/conversations/?agent_id="+a, `{"summary":"s"}`)["id"].(string)
	group := get[object](w, "POST", "/v1/groups/", `{"agent_ids":["`+a+`"],"description":"d"}`)["id"].(string)
	asked := get[answer](w, "POST", "/v1/conversations/"+conv+"/messages", message(`/approve deploy {"env":"prod"}`, `,"streaming":false`))
	before := []string{}
	paths := []string{"/v1/agents/" + a, "/v1/agents/", "/v1/conversations/?agent_id=" + a, "/v1/groups/" + group, "/v1/conversations/" + conv + "/messages", "/v1/runs/?agent_id=" + a}
	for _, p := range paths {
		_, b := w.do("GET", p, "")
		before = append(before, b)
	}
	w = w.restart()
	for i, p := range paths {
		if _, b := w.do("GET", p, ""); b != before[i] && !strings.Contains(p, "/conversations/?") {
			t.Errorf("%s\nbefore %s\nafter  %s", p, before[i], b)
		}
	}
	call := asked.Messages[len(asked.Messages)-1].Call.ID
	rest := get[answer](w, "POST", "/v1/conversations/"+conv+"/messages", `{"streaming":false,"messages":[{"type":"approval","approvals":[{"tool_call_id":"`+call+`","approve":true}]}]}`)
	if rest.text() != `deploy gave {"env":"prod"}` || rest.Stop.Reason != stream.StopEndTurn {
		t.Errorf("%+v", rest)
	}
	if code, _ := w.do("GET", "/v1/agents/"+gone, ""); code != http.StatusNotFound {
		t.Errorf("a deleted agent: %d", code)
	}
}

// A client that waited too long for its answer sends the message again, without an otid but with a retry header.
func TestRetryWithoutOTIDGetsTheSameRun(t *testing.T) {
	w := newTestServer(t, setup{})
	a := w.agent("")
	path := "/v1/agents/" + a + "/messages/async"
	run := get[object](w, "POST", path, message("/sleep 600", ""))["id"]
	again := func(text, count string) (int, object) {
		code, body := w.do("POST", path, message(text, ""), "X-Stainless-Retry-Count", count)
		var v object
		_ = json.Unmarshal([]byte(body), &v)
		return code, v
	}
	if code, v := again("/sleep 600", "1"); code != 200 || v["id"] != run {
		t.Errorf("sent again: %d %v", code, v)
	}
	for text, count := range map[string]string{"/sleep 600": "0", "something else": "1"} {
		if code, v := again(text, count); code != 409 || v["run_id"] != run {
			t.Errorf("%s, retry %s: %d %v", text, count, code, v)
		}
	}
	get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "")
}

// slowState sleeps after State has read a session, so that a missing lock shows.
type slowState struct{ sessions }

func (s slowState) State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error) {
	st, err := s.sessions.State(ctx, c, id)
	wait := time.NewTimer(5 * time.Millisecond)
	defer wait.Stop()
	<-wait.C
	return st, err
}

// Of many messages at once one is answered and the others are refused; with the same otid they are one message.
func TestOneOfManySendersIsAnswered(t *testing.T) {
	w := newTestServer(t, setup{change: func(o *Options) { o.Sessions = slowState{o.Sessions} }})
	for _, same := range []bool{false, true} {
		a := w.agent("")
		var mu sync.Mutex
		codes, runs := map[int]int{}, map[string]int{}
		var wg sync.WaitGroup
		for i := range 8 {
			otid := fmt.Sprint("o-", i)
			if same {
				otid = "o"
			}
			wg.Go(func() {
				res := w.call("POST", "/v1/agents/"+a+"/messages/async", `{"messages":[{"role":"user","content":"/sleep 600","otid":"`+otid+`"}]}`)
				defer res.Body.Close()
				var run struct {
					ID    string `json:"id"`
					RunID string `json:"run_id"`
				}
				_ = json.NewDecoder(res.Body).Decode(&run)
				mu.Lock()
				defer mu.Unlock()
				codes[res.StatusCode]++
				runs[run.ID+run.RunID]++
				if res.StatusCode == http.StatusConflict && res.Header.Get("X-Should-Retry") != "false" {
					t.Error("a client would try again")
				}
			})
		}
		wg.Wait()
		if len(runs) != 1 || same && codes[200] != 8 || !same && (codes[200] != 1 || codes[409] != 7) {
			t.Errorf("same otid %v: %v %v", same, codes, runs)
		}
		get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "")
		if got := w.say(a, "free again").text(); got != "You said: free again" {
			t.Errorf("%q", got)
		}
	}
}

// otherNode stores a message of another node of the cluster between State and the first Append of a message of this node.
type otherNode struct {
	sessions
	once *sync.Once
}

func (o otherNode) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	var err error
	if drafts[0].Type == (chat.UserMessage{}).Type() {
		o.once.Do(func() {
			_, err = o.sessions.Append(ctx, c, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "/sleep 600"})})
		})
	}
	if err != nil {
		return nil, err
	}
	return o.sessions.Append(ctx, c, id, drafts)
}

func TestMessageIsRefusedWhenAnotherNodeWasFaster(t *testing.T) {
	w := newTestServer(t, setup{change: func(o *Options) { o.Sessions = otherNode{o.Sessions, &sync.Once{}} }})
	a := w.agent("")
	code, body := w.do("POST", "/v1/agents/"+a+"/messages/async", `{"messages":[{"role":"user","content":"hello"}]}`)
	if code != http.StatusConflict || !strings.Contains(detailOf(body), "the agent is answering another message") {
		t.Errorf("%d %s", code, body)
	}
	get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "")
}

// Of several answers the first one counts. The others are refused with the name of the first answerer.
func TestOneOfManyApprovalsCounts(t *testing.T) {
	w := newTestServer(t, setup{})
	a := w.agent("")
	asked := w.say(a, `/approve deploy {"env":"prod"}`)
	call := asked.Messages[0].Call.ID
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for range 6 {
		wg.Go(func() {
			code, body := w.do("POST", "/v1/agents/"+a+"/messages", `{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"`+call+`","approve":true}]}]}`)
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
			if code != 200 && !strings.Contains(body, "answered by local") {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	wg.Wait()
	if codes[200] != 1 || codes[400] != 5 {
		t.Errorf("%v", codes)
	}
	if got := w.say(a, "on").text(); got != "You said: on" {
		t.Errorf("%q", got)
	}
	// A client whose connection broke sends the very same again, and says so.
	asked = w.say(a, `/approve deploy {}`)
	body := `{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"` + asked.Messages[0].Call.ID + `","approve":true}]}]}`
	first := get[answer](w, "POST", "/v1/agents/"+a+"/messages", body)
	code, again := w.do("POST", "/v1/agents/"+a+"/messages", body, "X-Stainless-Retry-Count", "1")
	var second answer
	if err := json.Unmarshal([]byte(again), &second); err != nil || code != 200 || second.text() != first.text() {
		t.Errorf("%d %s", code, again)
	}
}

// A model names an agent of the server: by its name, by the part after the slash, or as configured.
func TestModels(t *testing.T) {
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{}, "openai/gpt-x": scriptedAgent{}}, change: func(o *Options) {
		o.Models = map[string]string{"openai/gpt-4.1": "demo", "vendor/lost": "nobody"}
	}})
	for model, want := range map[string]string{
		"": "demo", "parley/demo": "demo", "demo": "demo", "any/script": "script", "openai/gpt-x": "openai/gpt-x", "openai/gpt-4.1": "demo", "vendor/lost": "", "vendor/other": "",
	} {
		code, body := w.do("POST", "/v1/agents/", `{"model":"`+model+`"}`)
		var a struct{ ID, Model string }
		_ = json.Unmarshal([]byte(body), &a)
		if want == "" {
			if code != 400 || !strings.Contains(body, "parley/demo") {
				t.Errorf("%q: %d %s", model, code, body)
			}
			continue
		}
		sess, err := w.Sessions.Get(t.Context(), owner, chat.SessionID(a.ID))
		if err != nil || sess.Agent != want || model != "" && a.Model != model {
			t.Errorf("%q is answered by %q (%v): %s", model, sess.Agent, err, body)
		}
	}
	all := newTestServer(t, setup{change: func(o *Options) { o.Models = map[string]string{"*": "demo"} }})
	all.say(all.agent(`{"model":"vendor/other"}`), "hello")
}

// twoCalls asks for approval of two calls at once.
type twoCalls struct{}

func (twoCalls) Answer(ctx context.Context, t *agent.Turn) error {
	decisions, err := t.Approve(ctx, chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{
		{CallID: "c1", Tool: "rm", Params: json.RawMessage(`{"a":1}`)}, {CallID: "c2", Tool: "mv", Params: json.RawMessage(`{}`)},
	}})
	if err != nil {
		return err
	}
	var says []string
	for _, d := range decisions {
		says = append(says, fmt.Sprint(d.CallID, d.Approve))
	}
	return t.Say(ctx, strings.Join(says, " "))
}

func TestAllCallsOfARequestAreDecided(t *testing.T) {
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"several": twoCalls{}}})
	a := w.agent(`{"model":"several"}`)
	path := "/v1/agents/" + a + "/messages"
	frames := w.open(path, message("go", `,"streaming":true,"stream_tokens":true`)).rest()
	if len(frames) != 4 || frames[0].Call.ID != "c1" || frames[1].Call.ID != "c2" || frames[0].OTID != frames[1].OTID || frames[2].Stop != stream.StopApproval {
		t.Fatalf("%+v", frames)
	}
	for body, want := range map[string]string{
		`[{"tool_call_id":"c1","approve":true}]`: "Expected [c1, c2]",
		`[{"tool_call_id":"c1","approve":true},{"tool_call_id":"c2","approve":true},{"tool_call_id":"c3","approve":true}]`: "Expected [c1, c2]",
		`[{"tool_call_id":"c1","approve":true},{"tool_call_id":"c1","approve":true}]`:                                      "Expected [c1, c2]",
		`[{"type":"tool","tool_call_id":"c1","status":"success","tool_return":"x"},{"tool_call_id":"c2","approve":true}]`:  "the agent runs this tool itself",
	} {
		if code, b := w.do("POST", path, `{"messages":[{"type":"approval","approvals":`+body+`}]}`); code != 400 || !strings.Contains(b, want) {
			t.Errorf("%s: %d %s", body, code, b)
		}
	}
	done := get[answer](w, "POST", path, `{"messages":[{"type":"approval","approvals":[{"tool_call_id":"c2","approve":false,"reason":"no"},{"tool_call_id":"c1","approve":true}]}]}`)
	if done.text() != "c1true c2false" {
		t.Errorf("%+v", done)
	}
}

// A server that shuts down tells the client to come back. The run is not lost.
func TestShutdownTellsTheClientToComeBack(t *testing.T) {
	w := newTestServer(t, setup{})
	a := w.agent("")
	r := w.open("/v1/agents/"+a+"/messages", message("/stream 100000 50", `,"streaming":true,"stream_tokens":true`))
	var got []frame
	for len(got) < 4 {
		m, ok := r.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		got = append(got, m)
	}
	rest := make(chan []frame)
	go func() { rest <- r.rest() }()
	w = w.restart()
	all := append(got, <-rest...)
	last := all[len(all)-1]
	if last.event != "error" || last.Err != "stream_incomplete" || r.done {
		t.Errorf("the last frame: %+v, done %v", last, r.done)
	}
	seq := all[len(all)-2].Seq
	if last.Seq != seq {
		t.Errorf("the last frame has seq_id %d, not %d", last.Seq, seq)
	}
	again := w.open("/v1/runs/"+got[0].Run+"/stream", fmt.Sprintf(`{"starting_after":%d}`, seq))
	if m, ok := again.next(); !ok || m.Type != stream.KindPing {
		t.Errorf("%+v", m)
	}
	if m, ok := again.next(); !ok || m.Type != stream.KindAssistant || m.Seq <= seq {
		t.Errorf("%+v after %d", m, seq)
	}
	again.drop()
	get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "")
}

// A silent stream is pinged with its last position.
func TestPings(t *testing.T) {
	w := newTestServer(t, setup{change: func(o *Options) { o.Heartbeat = 10 * time.Millisecond }})
	a := w.agent("")
	r := w.open("/v1/agents/"+a+"/messages", message("/sleep 600", `,"streaming":true`))
	first, _ := r.next()
	for range 3 {
		if m, ok := r.next(); !ok || m.Type != stream.KindPing || m.Seq != first.Seq || m.Run != first.Run {
			t.Fatalf("%+v", m)
		}
	}
	r.drop()
	get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "")
}

// Every message in an answer fits the schema.
func TestMessagesFitTheirSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../../docs/schemas/llm/message.json")
	if err != nil {
		t.Fatal(err)
	}
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{}, "several": twoCalls{}}})
	n := 0
	for model, texts := range map[string][]string{
		"demo":   {"hello", "/think a b", `/tool calc {"a":2}`, "/toolfail calc", `/ask radio`, "sms", "/usage 3 4", "/artifact table", "/plan 2", "/approve deploy {}"},
		"script": {"go"}, "several": {"go"},
	} {
		a := w.agent(`{"model":"parley/` + model + `","system":"Be kind."}`)
		for _, text := range texts {
			w.say(a, text)
		}
		for _, run := range get[[]object](w, "GET", "/v1/runs/?agent_id="+a, "") {
			for _, step := range get[[]struct{ Messages []json.RawMessage }](w, "GET", "/v1/runs/"+run["id"].(string)+"/steps", "") {
				for _, m := range step.Messages {
					v, err := jsonschema.UnmarshalJSON(bytes.NewReader(m))
					if err != nil {
						t.Fatal(err)
					}
					if err := schema.Validate(v); err != nil {
						t.Errorf("%s\n%v", m, err)
					}
					n++
				}
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d messages were looked at", n)
	}
}
