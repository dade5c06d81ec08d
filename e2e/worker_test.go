// Tests of workers under kills.

package e2e

import (
	"bufio"
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/freeport"
)

// follow reads a session with the Go client until the test ends.
func follow(t *testing.T, p *process, id chat.SessionID) (*reader, context.Context) {
	t.Helper()
	c, r := p.connect(""), newReader(string(id))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	watched := make(chan error, 1)
	go func() { watched <- r.watchClient(ctx, c, id) }()
	t.Cleanup(func() { cancel(); <-watched })
	return r, ctx
}

// TestAnotherWorkerContinuesTheTurn: a worker is killed during an answer; another one
// continues the same turn and the same block.
func TestAnotherWorkerContinuesTheTurn(t *testing.T) {
	p := serve(t, t.TempDir(), "--lease", "5s")
	p.post("/parley/v1/sessions", `{"id":"job","agent":"clerk"}`)
	r, ctx := follow(t, p, "job")
	first := launch(t, worker, "--url", p.url, "--name", "clerk", "--pause", "1s") // it is far from its end when it is killed
	words := strings.TrimSpace(strings.Repeat("word ", 40))
	p.post("/parley/v1/sessions/job/events", `{"type":"user.message","payload":{"text":"`+words+`"}}`)
	r.pieces(ctx, t, 2)
	first.kill()
	launch(t, worker, "--url", p.url, "--name", "clerk", "--pause", "1ms")
	end, err := r.until(ctx, ofType("turn.completed"))
	if err != nil {
		t.Fatal(err)
	}
	if out := end.Body.(chat.TurnCompleted).Outcome; out != chat.Done {
		t.Errorf("the turn ended as %s: %s", out, end.Payload)
	}
	if _, err := r.until(ctx, ofType("turn.resumed")); err != nil {
		t.Error("no other worker resumed the turn")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var said []string
	for _, e := range r.events {
		if b, ok := e.Body.(chat.AgentText); ok {
			said = append(said, b.Text)
		}
	}
	if len(said) != 1 || said[0] != "You said: "+words {
		t.Errorf("it said %q", said)
	}
	for _, f := range r.faults {
		t.Error(f)
	}
}

// TestWorkerContinuesAfterServerKill: when the server is killed and started again, its
// worker continues the turn.
func TestWorkerContinuesAfterServerKill(t *testing.T) {
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveAt(t, addr, data)
	p.post("/parley/v1/sessions", `{"id":"job","agent":"clerk"}`)
	r, ctx := follow(t, p, "job")
	launch(t, worker, "--url", p.url, "--name", "clerk", "--pause", "30ms")
	words := strings.TrimSpace(strings.Repeat("word ", 40))
	p.post("/parley/v1/sessions/job/events", `{"type":"user.message","payload":{"text":"`+words+`"}}`)
	r.pieces(ctx, t, 5)
	p.kill()
	serveAt(t, addr, data)
	end, err := r.until(ctx, ofType("turn.completed"))
	if err != nil || end.Body.(chat.TurnCompleted).Outcome != chat.Done {
		t.Fatalf("%s %v", end.Payload, err)
	}
	text, err := r.until(ctx, ofType("agent.text"))
	if err != nil || text.Body.(chat.AgentText).Text != "You said: "+words {
		t.Errorf("%s %v", text.Payload, err)
	}
}

// TestNodeWorkerReconnects runs the example of docs/workers.md. It reconnects also after
// failed attempts.
func TestNodeWorkerReconnects(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("the examples are tested with Node: install it")
	}
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveAt(t, addr, data)
	p.post("/parley/v1/sessions", `{"id":"job","agent":"echo"}`)
	r, ctx := follow(t, p, "job")
	args := []string{"../examples/worker.mjs", strings.Replace(p.url, "http", "ws", 1), "echo"}
	if out, err := exec.Command(node, "-p", "typeof WebSocket").Output(); err != nil || strings.TrimSpace(string(out)) != "function" {
		args = append([]string{"--experimental-websocket"}, args...) // Node 20
	}
	launch(t, node, args...)
	p.post("/parley/v1/sessions/job/events", `{"type":"user.message","payload":{"text":"grüße aus Köln"}}`)
	end, err := r.until(ctx, ofType("turn.completed"))
	if err != nil || end.Body.(chat.TurnCompleted).Outcome != chat.Done {
		t.Fatalf("%s %v", end.Payload, err)
	}
	text, err := r.until(ctx, ofType("agent.text"))
	if err != nil || text.Body.(chat.AgentText).Text != "You said: grüße aus Köln" {
		t.Errorf("%s %v", text.Payload, err)
	}

	p.kill()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second))
	for i := range 3 { // the reader connects here too
		c, err := l.Accept()
		for err == nil && !isWorker(c) {
			c, err = l.Accept()
		}
		if err != nil {
			t.Fatalf("the worker stopped after %d attempts: %v", i, err)
		}
	}
	l.Close()
	p = serveAt(t, addr, data)
	if out := p.post("/parley/v1/sessions", `{"id":"more","agent":"echo"}`); !strings.Contains(out, `"more"`) {
		t.Fatal(out)
	}
	r, ctx = follow(t, p, "more")
	p.post("/parley/v1/sessions/more/events", `{"type":"user.message","payload":{"text":"back?"}}`)
	text, err = r.until(ctx, ofType("agent.text"))
	if err != nil || text.Body.(chat.AgentText).Text != "You said: back?" {
		t.Errorf("%s %v", text.Payload, err)
	}
}

// isWorker reads the request of a connection, closes it, and reports whether a worker
// sent it.
func isWorker(c net.Conn) bool {
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.Contains(line, "/work")
}
