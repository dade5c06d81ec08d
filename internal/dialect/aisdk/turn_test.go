package aisdk

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// agentFunc is an agent in a test.
type agentFunc func(ctx context.Context, t *agent.Turn) error

func (f agentFunc) Answer(ctx context.Context, t *agent.Turn) error { return f(ctx, t) }

func TestAToolOfThePage(t *testing.T) {
	s := newTestServer(t, nil)
	asked := s.post(`{"id":"c1","system":"be brief","tools":{"clipboard":{"description":"Reads the clipboard","parameters":{"type":"object","properties":{}}}},
		"messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"/tool clipboard {\"n\":1}"}]}]}`)
	call := asked.find(t, chunkToolInput)
	if call["toolName"] != "clipboard" || call["providerExecuted"] != nil || call["dynamic"] != nil || asked.finish(t) != finishTools {
		t.Fatalf("%v", asked.chunks)
	}
	if slices.Contains(asked.types(), chunkToolAsk) {
		t.Error("the page is asked to approve its own tool")
	}
	rest := s.answer("c1", asked.id(t), fmt.Sprintf(`{"type":"tool-clipboard","toolCallId":%q,"state":"output-available","input":{},"output":{"text":"copied"}}`, call["toolCallId"]))
	if !strings.Contains(rest.words(), "copied") || rest.finish(t) != finishStop {
		t.Errorf("%d %s %v", rest.status, rest.text, rest.chunks)
	}
	b := s.Events("c1", "user.message")[0].Body.(chat.UserMessage)
	if b.System() != "be brief" || len(b.ClientTools()) != 1 {
		t.Errorf("%s", b.Context)
	}
}

// A page sends its answer inside the whole message of the turn, which has a part for each thing that the agent did.
func TestALongTurnIsAnswered(t *testing.T) {
	const calls = 1200
	s := newTestServer(t, map[string]agent.Agent{"worker": agentFunc(func(ctx context.Context, turn *agent.Turn) error {
		for i := range calls {
			if _, err := turn.AppendAll(ctx, chat.AgentToolCall{CallID: fmt.Sprint("c", i), Tool: "read"}, chat.AgentToolResult{CallID: fmt.Sprint("c", i), Result: json.RawMessage("1")}); err != nil {
				return err
			}
		}
		decisions, err := turn.Approve(ctx, chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "k", Tool: "deploy"}}})
		if err != nil {
			return err
		}
		return turn.Say(ctx, fmt.Sprint("approved: ", decisions[0].Approve))
	})})
	for name, message := range map[string]string{"c1": "", "c2": `,{"id":"m2","role":"user","parts":[{"type":"text","text":"and go on"}]}`} {
		asked := s.post(fmt.Sprintf(`{"id":%q,"agent":"worker","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"go"}]}]}`, name))
		request := asked.find(t, chunkToolAsk)
		parts := strings.Repeat(`{"type":"step-start"},{"type":"dynamic-tool","toolName":"read","toolCallId":"c1","state":"output-available","input":{},"output":1},`, calls)
		parts += fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":"k","state":"approval-responded","input":{},"approval":{"id":%q,"approved":true}}`, request["approvalId"])
		rest := s.post(fmt.Sprintf(`{"id":%q,"messages":[{"id":%q,"role":"assistant","parts":[%s]}%s]}`, name, asked.id(t), parts, message))
		if rest.status != http.StatusOK || len(s.Events(chat.SessionID(name), "user.approval_response")) != 1 {
			t.Errorf("%s: %d %s", name, rest.status, rest.text)
		}
		if message == "" && rest.words() != "approved: true" {
			t.Errorf("the rest is %q", rest.words())
		}
	}
}

// A resumed page must not run its tool a second time.
func TestAToolThatWasRunIsMarked(t *testing.T) {
	release := make(chan struct{})
	s := newTestServer(t, map[string]agent.Agent{"caller": agentFunc(func(ctx context.Context, turn *agent.Turn) error {
		if _, err := turn.Approve(ctx, chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "k", Tool: "clipboard", Client: true}}}); err != nil {
			return err
		}
		select {
		case <-release:
			return turn.Say(ctx, "done")
		case <-ctx.Done():
			return ctx.Err()
		}
	})})
	asked := s.post(`{"id":"c1","agent":"caller","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"go"}]}]}`)
	open := s.get("/api/chat/c1/stream")
	if open.find(t, chunkToolInput)["providerExecuted"] != nil || open.finish(t) != finishTools {
		t.Fatalf("%v", open.chunks)
	}
	part := `{"type":"tool-clipboard","toolCallId":"k","state":"output-available","input":{},"output":1}`
	body := fmt.Sprintf(`{"id":"c1","messages":[{"id":%q,"role":"assistant","parts":[%s]}]}`, asked.id(t), part)
	live := s.Send("POST", "/api/chat", body, s.header()...)
	again := s.Send("GET", "/api/chat/c1/stream", "", s.header()...)
	close(release)
	resumed := s.read(again, 0)
	if resumed.find(t, chunkToolInput)["providerExecuted"] != true || resumed.words() != "done" {
		t.Errorf("%v", resumed.chunks)
	}
	if rest := s.read(live, 0); rest.words() != "done" {
		t.Errorf("%v", rest.chunks)
	}
	if finished := s.get("/api/chat/c1/stream?replay=finished"); finished.find(t, chunkToolInput)["providerExecuted"] != true {
		t.Errorf("a finished turn: %v", finished.chunks)
	}
}

// The agent stores the call and its result again when the page has run the tool.
func TestAToolOfThePageIsOnePart(t *testing.T) {
	for answer, typ := range map[string]string{`"state":"output-available","output":{"city":"Rome"}`: chunkToolOutput, `"state":"output-error","errorText":"no signal"`: chunkToolError} {
		s := newTestServer(t, nil)
		asked := s.post(`{"id":"c1","tools":{"place":{"parameters":{"type":"object"}}},"messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"/tool place {\"a\":1}"}]}]}`)
		call := asked.find(t, chunkToolInput)["toolCallId"]
		if early := s.post(userMessage("c1", "m2", "hello")); early.status != 409 || !strings.Contains(early.text, "a tool of your page") {
			t.Errorf("a message before the result: %d %s", early.status, early.text)
		}
		rest := s.answer("c1", asked.id(t), fmt.Sprintf(`{"type":"tool-place","toolCallId":%q,"input":{},%s}`, call, answer))
		rest.find(t, typ)
		if rest.finish(t) != finishStop || slices.Contains(rest.types(), chunkToolInput) || len(s.Events("c1", "agent.tool_call")) != 1 {
			t.Errorf("the rest is %v", rest.chunks)
		}
		_, list, _ := s.Call("GET", "/api/chat/c1/messages", "")
		if n := strings.Count(list, `"toolCallId"`); n != 1 || !strings.Contains(list, `"type":"tool-place"`) {
			t.Errorf("the list has %d tool parts: %s", n, list)
		}
	}
}

func TestAMessageThatSteersBeginsAMessage(t *testing.T) {
	s := newTestServer(t, map[string]agent.Agent{"listener": agentFunc(func(ctx context.Context, turn *agent.Turn) error {
		if err := turn.Say(ctx, "first"); err != nil {
			return err
		}
		for {
			heard, err := turn.NewMessages(ctx)
			if err != nil {
				return err
			}
			for _, m := range heard {
				if err := turn.Say(ctx, "heard "+m.Text); err != nil || m.Text == "end" {
					return err
				}
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})})
	caller := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeUser}}
	if _, _, err := s.Sessions.Create(t.Context(), caller, chat.NewSession{ID: "c1", Agent: "listener", Policy: chat.Steer}); err != nil {
		t.Fatal(err)
	}
	live := s.Send("POST", "/api/chat", userMessage("c1", "m1", "go"), s.header()...)
	s.Until("c1", "agent.text", 1)
	if _, err := s.Sessions.Append(t.Context(), caller, "c1", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "from elsewhere"})}); err != nil {
		t.Fatal(err)
	}
	s.Until("c1", "agent.text", 2)
	second := s.say("c1", "m2", "end")
	first := s.read(live, 0)
	if first.words() != "firstheard from elsewhere" || first.find(t, dataSteered)["data"].(map[string]any)["text"] != "from elsewhere" {
		t.Errorf("%v", first.chunks)
	}
	if second.words() != "heard end" || second.id(t) == first.id(t) || second.finish(t) != finishStop {
		t.Errorf("%v", second.chunks)
	}
	if again := s.get("/api/chat/" + second.run + "/stream?startIndex=0"); fmt.Sprint(again.chunks) != fmt.Sprint(second.chunks) {
		t.Errorf("%s: %v", second.run, again.chunks)
	}
	_, body, _ := s.Call("GET", "/api/chat/c1/messages", "")
	if i, j := strings.Index(body, `"m2"`), strings.Index(body, "heard end"); i < 0 || j < i || strings.Count(body, "from elsewhere") != 2 {
		t.Errorf("%s", body)
	}
}

func TestTwoPromptsAtOnceAreOneStep(t *testing.T) {
	s := newTestServer(t, map[string]agent.Agent{"asker": agentFunc(func(ctx context.Context, turn *agent.Turn) error {
		done := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			part := turn.Part(name)
			go func() {
				_, err := part.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: name})
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				return err
			}
		}
		return turn.Say(ctx, "both")
	})})
	asked := s.post(`{"id":"c1","agent":"asker","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"go"}]}]}`)
	s.Until("c1", "agent.input_request", 2)
	open := s.get("/api/chat/c1/stream")
	var ids []string
	steps := 0
	for _, c := range open.chunks {
		switch c["type"] {
		case chunkToolInput:
			ids = append(ids, c["toolCallId"].(string))
		case chunkStartStep:
			steps++
		}
	}
	if len(ids) != 2 || steps != 1 {
		t.Fatalf("%v", open.chunks)
	}
	answerTo := func(id string) string {
		return fmt.Sprintf(`{"type":"tool-ask_person","toolCallId":%q,"state":"output-available","input":{},"output":"x"}`, id)
	}
	// The second alone: the first is still open, and the page must be able to answer it.
	if part := s.answer("c1", asked.id(t), answerTo(ids[1])); part.finish(t) != finishTools || len(part.chunks) != 2 {
		t.Errorf("%v", part.chunks)
	}
	rest := s.answer("c1", asked.id(t), answerTo(ids[0])+","+answerTo(ids[1]))
	if rest.words() != "both" || rest.finish(t) != finishStop {
		t.Errorf("%v", rest.chunks)
	}
}

// A clean end counts as success for the clients.
func TestAShutdownBreaksTheResponse(t *testing.T) {
	s := newTestServer(t, nil)
	res := s.Send("POST", "/api/chat", userMessage("c1", "m1", "/stream 100000 50"), s.header()...)
	defer res.Body.Close()
	s.Until("c1", "turn.started", 1)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Conns.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the response ended properly")
	}
	<-closed
	if got := s.say("c2", "m1", "hello"); got.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestASocketCarriesManyResponses(t *testing.T) {
	s := newTestServer(t, nil, "alice")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, _, err := websocket.Dial(ctx, s.HTTP.URL+"/api/chat", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {s.header()[3]}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	send := func(frame string) {
		t.Helper()
		if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	type frame struct {
		Type      string `json:"type"`
		RequestID string `json:"requestId"`
		Sequence  int    `json:"sequence"`
		Chunk     struct {
			Delta string `json:"delta"`
		} `json:"chunk"`
	}
	next := map[string]int{}
	words := map[string]string{}
	ended := map[string]string{}
	for _, id := range []string{"a", "b"} {
		message := userMessage("c-"+id, "m1", "/echo "+id)
		send(`{"type":"send","requestId":"` + id + `","headers":{},"body":{},` + message[1:])
	}
	send(`{"type":"resume","requestId":"none","id":"new","headers":{},"body":{}}`)
	send(`{"type":"send","requestId":"bad","id":"x","messages":[],"headers":{},"body":{}}`)
	send(`{"type":"abort","requestId":"unknown"}`)
	for len(ended) < 4 {
		_, b, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		switch f.Type {
		case frameStart:
		case "chunk":
			if f.Sequence != next[f.RequestID] {
				t.Errorf("%s has the number %d, not %d", b, f.Sequence, next[f.RequestID])
			}
			next[f.RequestID]++
			words[f.RequestID] += f.Chunk.Delta
		default:
			ended[f.RequestID] = f.Type
		}
	}
	if words["a"] != "a" || words["b"] != "b" || ended["a"] != frameEnd || ended["none"] != frameNoActive || ended["bad"] != frameError {
		t.Errorf("%v %v", words, ended)
	}
	send(`{"type":"send"`)
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a frame that is no JSON: %v", err)
	}
}
