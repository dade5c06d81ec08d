// Tests of the end of the server at SIGTERM.

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestGracefulShutdown: at SIGTERM readers get a bye frame, the running turn ends within
// the grace period, the exit code is 0, and the next start is clean.
func TestGracefulShutdown(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data, "--grace", "15s")
	p.post("/parley/v1/sessions", `{"id":"s"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", p.url+"/parley/v1/sessions/s/stream?after=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	conn, _, err := websocket.Dial(ctx, p.url+"/parley/v1/ws", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	p.post("/parley/v1/sessions/s/events", `{"type":"user.message","payload":{"text":"/stream 200 100"}}`)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	begun := false
	var rest []string
	for lines.Scan() {
		if !begun && lines.Text() == "event: preview" { // the turn is running
			begun = true
			go p.terminate()
		}
		if begun {
			rest = append(rest, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	end := strings.Join(rest, "\n")
	if !strings.Contains(end, "event: bye") || !strings.Contains(end[strings.LastIndex(end, "event:"):], `"retry":true`) {
		t.Errorf("no bye at the end:\n%s", tail(end))
	}
	_, bye, err := conn.Read(ctx)
	if err != nil || !strings.Contains(string(bye), `"op":"bye"`) || !strings.Contains(string(bye), `"retry":true`) {
		t.Errorf("the socket gets %s %v", bye, err)
	}
	if _, _, err = conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the socket ends with %v", err)
	}
	if code := p.code(60 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = serve(t, data)
	got := p.get("/parley/v1/sessions/s/events?types=turn.completed,turn.resumed,agent.text")
	if strings.Contains(got, "turn.resumed") || !strings.Contains(got, `"outcome":"done"`) || !strings.Contains(got, "tok200") {
		t.Errorf("the turn did not end within the grace: %s", got)
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(p.err.String()) {
		if (strings.Contains(line, "ERROR") || strings.Contains(line, "WARN")) && !strings.Contains(line, `msg="the disk is slow"`) {
			t.Errorf("the second start is not clean: %s", line)
		}
	}
}

// TestTurnContinuesAfterRestart: a turn that does not end within the grace period
// continues after the next start; planned restarts are not counted as crashes.
func TestTurnContinuesAfterRestart(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	p.post("/parley/v1/sessions", `{"id":"s"}`)
	p.post("/parley/v1/sessions/s/events", `{"type":"user.message","payload":{"text":"/stream 240 40"}}`)
	for range 5 {
		if code := p.terminateAfter(300 * time.Millisecond); code != 0 {
			t.Fatalf("exit code %d\n%s", code, p.err)
		}
		p = serve(t, data, "--grace", "200ms")
	}
	c := p.connect("")
	r := newReader("s")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	watched := make(chan error, 1)
	go func() { watched <- r.watchClient(ctx, c, "s") }()
	defer func() { cancel(); <-watched }()
	e, err := r.until(ctx, ofType("turn.completed"))
	if err != nil || !strings.Contains(string(e.Payload), `"done"`) {
		t.Fatalf("%s %v", e.Payload, err)
	}
	text, err := r.until(ctx, ofType("agent.text"))
	if err != nil || !strings.HasSuffix(string(text.Payload), `tok239 tok240","final":true}`) {
		t.Errorf("%s %v", tail(string(text.Payload)), err)
	}
}

// TestUploadEndsAfterTheGraceOfTurns: a short grace period ends turns, not the requests that are being sent.
func TestUploadEndsAfterTheGraceOfTurns(t *testing.T) {
	p := serve(t, t.TempDir(), "--grace", "1ms")
	p.post("/parley/v1/sessions", `{"id":"s","agent":"none"}`)
	body, upload := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", p.url+"/parley/v1/sessions/s/artifacts/f", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Expect", "100-continue") // the body is sent when the server reads it
	type answer struct {
		code int
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}
		res, err := client.Do(req)
		if err != nil {
			answered <- answer{err: err}
			return
		}
		res.Body.Close()
		answered <- answer{code: res.StatusCode}
	}()
	if _, err := upload.Write([]byte("one ")); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { // until the server no longer listens
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, "the server still listens")
	_, _ = upload.Write([]byte("two"))
	_ = upload.Close()
	if a := <-answered; a.err != nil || a.code >= 300 {
		t.Errorf("the upload ends with %d, %v", a.code, a.err)
	}
	if code := p.code(20 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestKillIsNoProperEndForHTTP10: nginx speaks HTTP/1.0 to a server unless it is told otherwise. There the end of the connection is the
// proper end of a response, so a killed server has to reset it: otherwise pages take half an answer for all of it.
func TestKillIsNoProperEndForHTTP10(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir())
	p.post("/parley/v1/sessions", `{"id":"s"}`)
	var all []*bufio.Reader
	for _, c := range []call{
		{method: "POST", path: "/api/chat", body: aisdkSend("a", "/stream 100000 100")},
		{method: "POST", path: "/ag-ui/demo", body: aguiSend("b", "/stream 100000 100")},
		{method: "GET", path: "/parley/v1/sessions/s/stream?after=0"},
	} {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path, p.addr, len(c.body), c.body)
		read := bufio.NewReader(conn)
		for line := ""; !strings.HasPrefix(line, "data: "); {
			if line, err = read.ReadString('\n'); err != nil {
				t.Fatalf("%s: %v", c.path, err)
			}
		}
		all = append(all, read)
	}
	p.kill()
	for i, read := range all {
		if _, err := io.Copy(io.Discard, read); err == nil {
			t.Errorf("stream %d has a proper end", i)
		}
	}
}
