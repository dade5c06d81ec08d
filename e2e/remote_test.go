// Tests of agents on another server, and several workers of one agent.

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialecttest"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

// serveRemoteAgents starts a server whose agents are the demo agent of another server,
// one per protocol.
func serveRemoteAgents(t *testing.T, addr, data string, far *process) *process {
	t.Helper()
	file := filepath.Join(data, "parley.yaml")
	text := fmt.Sprintf(`agents:
  - {name: socket, kind: nemo, url: %[2]s/websocket, history: 1}
  - {name: stream, kind: nemo, url: %[1]s/chat/stream, history: 1}
  - {name: openai, kind: openai-chat, url: %[1]s/v1, history: 1}
  - {name: agui, kind: ag-ui, url: %[1]s/ag-ui/demo}
`, far.url, strings.Replace(far.url, "http", "ws", 1))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return serveAt(t, addr, filepath.Join(data, "store"), "--config", file)
}

// texts returns the texts of the agent, and whether one is partial.
func (r *reader) texts() (said []string, partial bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if b, ok := e.Body.(chat.AgentText); ok {
			said = append(said, b.Text)
			partial = partial || b.Partial
		}
	}
	return said, partial
}

// TestRemoteAgentSurvivesKill: an agent behind another server's NeMo or OpenAI routes
// answers, also when the requesting server is killed during the answer.
func TestRemoteAgentSurvivesKill(t *testing.T) {
	far := serve(t, t.TempDir())
	for _, agent := range []string{"socket", "stream", "openai"} {
		t.Run(agent, func(t *testing.T) {
			data, addr := t.TempDir(), freeport.Addr(t)
			p := serveRemoteAgents(t, addr, data, far)
			p.post("/parley/v1/sessions", `{"id":"job-`+agent+`","agent":"`+agent+`"}`)
			id := chat.SessionID("job-" + agent)
			r, ctx := follow(t, p, id)
			p.post("/parley/v1/sessions/"+string(id)+"/events", `{"type":"user.message","payload":{"text":"/stream 60 40"}}`)
			r.pieces(ctx, t, 5)
			p.kill()
			p = serveRemoteAgents(t, addr, data, far)
			end, err := r.until(ctx, ofType("turn.completed"))
			if err != nil || end.Body.(chat.TurnCompleted).Outcome != chat.Done {
				t.Fatalf("%s %v", end.Payload, err)
			}
			said, partial := r.texts()
			if len(said) != 1 || partial || !strings.HasPrefix(said[0], "tok1 tok2 ") || !strings.HasSuffix(said[0], " tok60") {
				t.Errorf("it said %q", said)
			}
			p.post("/parley/v1/sessions/"+string(id)+"/events", `{"type":"user.message","payload":{"text":"/fail on purpose"}}`)
			end, err = r.until(ctx, func(e chat.Event) bool {
				b, ok := e.Body.(chat.TurnCompleted)
				return ok && b.Outcome == chat.Failed
			})
			if err != nil || !strings.Contains(end.Body.(chat.TurnCompleted).Error, "on purpose") {
				t.Errorf("%s %v", end.Payload, err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, f := range r.faults {
				t.Error(f)
			}
		})
	}
}

// TestRemotePromptSurvivesKill: a prompt of a workflow behind the NeMo WebSocket can be
// answered after the server in front of it was killed.
func TestRemotePromptSurvivesKill(t *testing.T) {
	far := serve(t, t.TempDir())
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveRemoteAgents(t, addr, data, far)
	p.post("/parley/v1/sessions", `{"id":"ask","agent":"socket"}`)
	r, ctx := follow(t, p, "ask")
	p.post("/parley/v1/sessions/ask/events", `{"type":"user.message","payload":{"text":"/ask radio"}}`)
	asked, err := r.until(ctx, ofType("agent.input_request"))
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	p = serveRemoteAgents(t, addr, data, far)
	p.post("/parley/v1/sessions/ask/prompts/"+asked.Body.(chat.AgentInputRequest).RequestID+"/answer", `{"values":["sms"]}`)
	end, err := r.until(ctx, ofType("turn.completed"))
	if err != nil || end.Body.(chat.TurnCompleted).Outcome != chat.Done {
		t.Fatalf("%s %v", end.Payload, err)
	}
	if said, _ := r.texts(); len(said) != 1 || said[0] != "You answered: sms" {
		t.Errorf("it said %q", said)
	}
}

// TestPagesToolSurvivesKill: a call of a page's tool can be answered after the server between the page and the agent was killed while
// the tool ran, and again while the answer is delivered. The result counts once.
func TestPagesToolSurvivesKill(t *testing.T) {
	far := serve(t, t.TempDir())
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveRemoteAgents(t, addr, data, far)
	message := `{"id":"m1","role":"user","content":"/tool look {\"at\":\"sky\"}"}`
	run := func(id, messages string) *pageStream {
		t.Helper()
		body := strings.Replace(dialecttest.AGUIRun("page", id, messages, `[]`), `"tools":[]`, `"tools":[{"name":"look","description":"Looks.","parameters":{}}]`, 1)
		s := p.openPage(t, call{method: "POST", path: "/ag-ui/agui", body: body})
		if _, err := s.end(t); err != nil || s.status != 200 {
			t.Fatalf("%d %s %v", s.status, s.body, err)
		}
		return s
	}
	asked, _ := run("r1", `[`+message+`]`).end(t)
	callID := field(t, asked.Raw, "outcome.pendingToolCallIds.0")
	p.kill()
	p = serveRemoteAgents(t, addr, data, far)
	results := func(result string) string {
		return fmt.Sprintf(`[%s,{"id":"a1","role":"assistant","toolCalls":[{"id":%q,"type":"function","function":{"name":"look","arguments":"{}"}}]},{"id":"t1","role":"tool","toolCallId":%q,"content":%q}]`,
			message, callID, callID, result)
	}
	r, ctx := follow(t, p, "page")
	url, sent := p.url, make(chan struct{})
	go func() { // the response breaks off
		defer close(sent)
		res, err := http.Post(url+"/ag-ui/agui", "application/json", strings.NewReader(dialecttest.AGUIRun("page", "r2", results("blue"), `[]`)))
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}()
	if _, err := r.until(ctx, ofType("user.approval_response")); err != nil {
		t.Fatal(err)
	}
	p.kill()
	<-sent
	p = serveRemoteAgents(t, addr, data, far)
	if _, err := r.until(ctx, ofType("turn.completed")); err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{"blue", "red"} {
		if got := pageText(run("again-"+again, results(again))); got != `look gave "blue"` {
			t.Errorf("sent again with %s: %q", again, got)
		}
	}
	if said, _ := r.texts(); len(said) != 1 || said[0] != `look gave "blue"` {
		t.Errorf("it said %q", said)
	}
	for _, one := range []struct {
		*process
		id string
	}{{p, "page"}, {far, "page.agui"}} {
		log := one.get("/parley/v1/sessions/" + one.id + "/events?types=user.approval_response,agent.tool_result,turn.completed")
		if n := strings.Count(log, `"user.approval_response"`); n != 1 || strings.Count(log, `"agent.tool_result"`) != 1 || strings.Count(log, `"outcome":"done"`) != 1 {
			t.Errorf("the log of %s has %s", one.id, log)
		}
	}
}

// TestStopReachesTheOtherServerAfterAKill: a turn that waits for an answer at another Parley server is stopped after the server in front
// of it was killed. It ends at the other server too.
func TestStopReachesTheOtherServerAfterAKill(t *testing.T) {
	far := serve(t, t.TempDir())
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveRemoteAgents(t, addr, data, far)
	p.post("/parley/v1/sessions", `{"id":"ask","agent":"agui"}`)
	r, ctx := follow(t, p, "ask")
	p.post("/parley/v1/sessions/ask/events", `{"type":"user.message","payload":{"text":"/ask radio"}}`)
	if _, err := r.until(ctx, ofType("agent.input_request")); err != nil {
		t.Fatal(err)
	}
	there, farCtx := follow(t, far, "ask.agui")
	p.kill()
	p = serveRemoteAgents(t, addr, data, far)
	p.post("/parley/v1/sessions/ask/stop", `{}`)
	if end, err := r.until(ctx, ofType("turn.completed")); err != nil || end.Body.(chat.TurnCompleted).Outcome != chat.Stopped {
		t.Errorf("the turn ended as %s, %v", end.Payload, err)
	}
	if end, err := there.until(farCtx, ofType("turn.completed")); err != nil || end.Body.(chat.TurnCompleted).Outcome != chat.Stopped {
		t.Errorf("at the other server it ended as %s, %v", end.Payload, err)
	}
}

// TestTwoWorkersAnswerAllTurns: with two workers of one agent every turn is answered
// once.
func TestTwoWorkersAnswerAllTurns(t *testing.T) {
	p := serve(t, t.TempDir())
	launch(t, worker, "--url", p.url, "--name", "clerk", "--pause", "20ms")
	launch(t, worker, "--url", p.url, "--name", "clerk", "--pause", "20ms")
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for !strings.Contains(p.get("/parley/v1/agents"), `"workers":2`) {
		if sleep.For(ctx, 10*time.Millisecond); ctx.Err() != nil {
			t.Fatal("the workers did not connect")
		}
	}
	c := p.connect("")
	var readers []*reader
	for i := range 6 {
		id := chat.SessionID(fmt.Sprint("job", i))
		p.post("/parley/v1/sessions", `{"id":"`+string(id)+`","agent":"clerk"}`)
		r := newReader(string(id))
		watched := make(chan error, 1)
		go func() { watched <- r.watchClient(ctx, c, id) }()
		t.Cleanup(func() { cancel(); <-watched })
		p.post("/parley/v1/sessions/"+string(id)+"/events", `{"type":"user.message","payload":{"text":"one two three four"}}`)
		readers = append(readers, r)
	}
	for _, r := range readers {
		if _, err := r.until(ctx, ofType("turn.completed")); err != nil {
			t.Fatal(err)
		}
		if said, _ := r.texts(); len(said) != 1 || said[0] != "You said: one two three four" {
			t.Errorf("%s: it said %q", r.name, said)
		}
	}
}

// TestOneOfTwoWorkersGetsTheTurn: when two workers claim a turn one gets it, the other
// gets a conflict, and the turn is answered once.
func TestOneOfTwoWorkersGetsTheTurn(t *testing.T) {
	p := serve(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	dial := func() *websocket.Conn {
		conn, _, err := websocket.Dial(ctx, p.url+"/parley/v1/agents/clerk/work", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.CloseNow() })
		return conn
	}
	write := func(conn *websocket.Conn, frame string) {
		if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	// read reads frames until one contains a word.
	read := func(conn *websocket.Conn, words ...string) string {
		for {
			_, b, err := conn.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range words {
				if strings.Contains(string(b), w) {
					return string(b)
				}
			}
		}
	}
	first := dial()
	write(first, `{"op":"ready","id":1,"slots":1}`)
	p.post("/parley/v1/sessions", `{"id":"job","agent":"clerk"}`)
	p.post("/parley/v1/sessions/job/events", `{"type":"user.message","payload":{"text":"go"}}`)
	_, rest, _ := strings.Cut(read(first, `"op":"turn"`), `"turn_id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	first.CloseNow()

	claims := []*websocket.Conn{dial(), dial()}
	for _, conn := range claims {
		write(conn, `{"op":"ready","id":1,"slots":1,"turns":["`+id+`"]}`)
	}
	for i, conn := range claims {
		write(conn, fmt.Sprintf(`{"op":"append","id":"say","turn_id":%q,"events":[{"type":"agent.text","payload":{"text":"from %d","final":true},"client_id":"w%d"}]}`, id, i, i))
	}
	stored, refused := 0, 0
	for _, conn := range claims {
		switch f := read(conn, `"id":"say"`); {
		case strings.Contains(f, `"op":"ok"`):
			stored++
			write(conn, `{"op":"done","id":"done","turn_id":"`+id+`"}`)
			read(conn, `"id":"done"`)
		case strings.Contains(f, `"conflict"`):
			refused++
		default:
			t.Errorf("got %s", f)
		}
	}
	if stored != 1 || refused != 1 {
		t.Errorf("%d stored, %d refused", stored, refused)
	}
	r, watch := follow(t, p, "job")
	if _, err := r.until(watch, ofType("turn.completed")); err != nil { // the end is stored shortly after the answer to the worker
		t.Fatal(err)
	}
	if log := p.get("/parley/v1/sessions/job/events"); strings.Count(log, `"type":"agent.text"`) != 1 || !strings.Contains(log, `"outcome":"done"`) {
		t.Errorf("the log says %s", log)
	}
}
