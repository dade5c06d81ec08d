package agui

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/session"
)

type agentType = agent.Agent

var echoAgent = agent.Func(func(ctx context.Context, t *agent.Turn) error {
	w := t.Stream(true)
	if err := w.Write(ctx, t.Text()); err != nil {
		return err
	}
	return w.Close(ctx)
})

// mixedAgent shows a bit of everything, in many pieces.
var mixedAgent = agent.Func(func(ctx context.Context, t *agent.Turn) error {
	think := t.Think()
	for range 5 {
		if err := think.Write(ctx, "hmm, "); err != nil {
			return err
		}
	}
	if err := think.Close(ctx); err != nil {
		return err
	}
	if err := t.Status(ctx, "working", ""); err != nil {
		return err
	}
	w := t.Stream(true)
	for range 30 {
		if err := w.Write(ctx, "wörd "); err != nil {
			return err
		}
	}
	return w.Close(ctx)
})

func TestClientResumesAtEveryFrame(t *testing.T) {
	dir := t.TempDir()
	s := newTestServer(t, setup{dir: dir, agents: map[string]agentType{"mixed": mixedAgent}})
	runs := map[string][]got{}
	sent := map[string]string{"/ag-ui/mixed": "u1 go", "/ag-ui/demo": "u1 /work 2 0"}
	for path, say := range sent {
		thread := strings.TrimPrefix(path, "/ag-ui/")
		b := body(thread, "r1", say)
		live := s.stream(path, b)
		runs[path] = live
		wantFrames(t, "the run again", s.stream(path, b), live)
		for i := range live[:len(live)-1] {
			wantFrames(t, "after "+live[i].id, s.stream(path, b, "Last-Event-ID", live[i].id), live[i+1:])
		}
		if n := s.count(thread, chat.UserMessage{}); n != 1 {
			t.Errorf("%d messages", n)
		}
		ids := map[string]bool{}
		for _, f := range live {
			if ids[f.id] || f.id == "" {
				t.Errorf("the id %q is used twice", f.id)
			}
			ids[f.id] = true
		}
	}
	s.Close()
	s = newTestServer(t, setup{dir: dir, agents: map[string]agentType{"mixed": mixedAgent}})
	for path, say := range sent {
		live := runs[path]
		wantFrames(t, "after a restart", s.stream(path, body(strings.TrimPrefix(path, "/ag-ui/"), "r1", say), "Last-Event-ID", live[3].id), live[4:])
	}
}

func wantFrames(t *testing.T, what string, frames, want []got) {
	t.Helper()
	if len(frames) != len(want) {
		t.Fatalf("%s: %d frames, want %d", what, len(frames), len(want))
	}
	for i := range frames {
		if frames[i].id != want[i].id || frames[i].json != want[i].json {
			t.Fatalf("%s: frame %d is %s %s, want %s %s", what, i, frames[i].id, frames[i].json, want[i].id, want[i].json)
		}
	}
}

// A live reader, one that joins later and one that comes back get the same frames.
func TestReadersOfARunningRunGetTheSameFrames(t *testing.T) {
	hold, joined := make(chan struct{}), make(chan struct{})
	steps := agent.Func(func(ctx context.Context, t *agent.Turn) error {
		w := t.Stream(true)
		for i := range 20 {
			if i == 10 {
				close(joined)
				select {
				case <-hold:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := w.Write(ctx, "piece "); err != nil {
				return err
			}
		}
		return w.Close(ctx)
	})
	s := newTestServer(t, setup{agents: map[string]agentType{"steps": steps}})
	b := body("th", "r1", "u1 go")
	first := s.open("/ag-ui/steps", b)
	defer first.Close()
	begin, err := readFrames(first.Reader, 5)
	if err != nil {
		t.Fatal(err)
	}
	<-joined
	second := s.open("/ag-ui/steps", b, "Last-Event-ID", begin[2].id)
	defer second.Close()
	third := s.open("/api/copilotkit/agent/steps/connect", body("th", "c"))
	defer third.Close()
	if _, err := io.ReadAtLeast(third, make([]byte, 10), 10); err != nil {
		t.Fatal(err)
	}
	close(hold)
	rest, err := readFrames(first.Reader, -1)
	if err != nil {
		t.Fatal(err)
	}
	live := append(begin, rest...)
	late, err := readFrames(second.Reader, -1)
	if err != nil {
		t.Fatal(err)
	}
	wantFrames(t, "a second reader", late, live[3:])
	wantFrames(t, "a replay", s.stream("/ag-ui/steps", b, "Last-Event-ID", live[0].id), live[1:])
}

// Clients count a proper end without a terminal event as success.
func TestShutdownBreaksTheStream(t *testing.T) {
	s := newTestServer(t, setup{})
	res := s.open("/ag-ui/demo", body("th", "r1", "u1 /sleep 600"))
	defer res.Close()
	if _, err := readFrames(res.Reader, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { _ = s.Conns.Shutdown(ctx) }()
	frames, err := readFrames(res.Reader, -1)
	if err == nil || len(frames) != 0 {
		t.Errorf("the stream ended with %v after %d frames", err, len(frames))
	}
}

func TestConnectReplaysAllRuns(t *testing.T) {
	s := newTestServer(t, setup{})
	if frames := s.stream("/api/copilotkit/agent/demo/connect", body("th", "c")); len(frames) != 0 {
		t.Errorf("a new thread: %s", types(frames))
	}
	s.run(body("th", "r1", "u1 one"))
	s.run(body("th", "r2", "u2 /fail two"))
	s.run(body("th", "r3", "u3 /tool look {}"))
	frames := s.stream("/api/copilotkit/agent/demo/connect", body("th", "c"))
	var runs, people []string
	for _, f := range frames {
		if f.Type == "RUN_STARTED" {
			runs, people = append(runs, f.RunID), append(people, f.Input.Messages[0].ID)
		}
	}
	if strings.Join(runs, " ") != "r1 r2 r3" || strings.Join(people, " ") != "u1 u2 u3" || last(frames).Type != "RUN_FINISHED" {
		t.Errorf("runs %v, messages %v", runs, people)
	}
}

// A page that connects again would append the text of a run to what it has of it.
func TestPageThatConnectsAgainForgetsItsRuns(t *testing.T) {
	s := newTestServer(t, setup{})
	history := []string{"u0 before", `{"id":"a0","role":"assistant","content":"I said that"}`}
	first := s.run(body("th", "r1", append(history, "u1 one")...))
	has := append(history, "u1 one", `{"id":"`+first[1].MessageID+`","role":"assistant","content":"You sa"}`)
	frames := s.stream("/api/copilotkit/agent/demo/connect", body("th", "c", has...))
	if frames[0].Type != "RUN_STARTED" || frames[1].Type != "MESSAGES_SNAPSHOT" || frames[1].id != "" {
		t.Fatalf("got %s", types(frames))
	}
	var shown []string
	for _, m := range frames[1].Messages {
		shown = append(shown, m.Role+" "+m.ID)
	}
	if len(shown) != 3 || shown[0] != "user u0" || shown[1] != "assistant "+frames[0].Input.Messages[1].ID || shown[2] != "user u1" || said(frames) != "You said: one" {
		t.Errorf("the page keeps %v, and gets %q", shown, said(frames))
	}
	for _, f := range s.stream("/api/copilotkit/agent/demo/connect", body("th", "c", "u1 one")) {
		if f.Type == "MESSAGES_SNAPSHOT" {
			t.Errorf("a page without answers: %s", f.json)
		}
	}
}

func TestTanStackFindsRunsAndThreads(t *testing.T) {
	s := newTestServer(t, setup{})
	live := s.run(body("th", "r1", "u1 hello"), "X-Run-Id", "r1")
	get := func(query string, header ...string) []got {
		t.Helper()
		res := s.Send("GET", "/ag-ui/demo?"+query, "", header...)
		defer res.Body.Close()
		frames, err := readFrames(res.Body, -1)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %d %v", query, res.StatusCode, err)
		}
		return frames
	}
	if frames := get("offset=-1&runId=r1"); len(frames) != len(live) || frames[0].ThreadID != "th" {
		t.Errorf("joined: %d frames, want %d", len(frames), len(live))
	}
	if frames := get("offset=-1&runId=r1", "Last-Event-ID", live[1].id); len(frames) != len(live)-2 {
		t.Errorf("joined after a frame: %d frames, want %d", len(frames), len(live)-2)
	}
	if code, _, _ := s.Call("GET", "/ag-ui/demo?runId=nope", ""); code != 404 {
		t.Errorf("an unknown run: %d", code)
	}
	s.run(body("th", "r2", "u2 /ask radio"), "X-Run-Id", "r2")
	_, text, _ := s.Call("GET", "/ag-ui/demo?threadId=th", "")
	for _, want := range []string{`"id":"u1","role":"user","parts":[{"type":"text","content":"hello"}]`, `"activeRun":null`, `"runId":"r2"`, `"tanstack:interruptBinding":{`, `"interruptedRunId":"r2"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, `"pending":[{"responseSchema`) {
		t.Errorf("TanStack's client wants a hash of the schema: %s", text)
	}
	if _, text, _ = s.Call("GET", "/ag-ui/demo?threadId=new", ""); text != `{"messages":[],"activeRun":null,"interrupts":null}` {
		t.Errorf("a new thread: %s", text)
	}
}

// behind is the session layer of a node that may be behind: it cannot say whether an id exists.
type behind struct{ pages.Sessions }

func (behind) ByID(context.Context, chat.Caller, chat.ID) (chat.Session, chat.Seq, error) {
	return chat.Session{}, 0, chat.Errorf(chat.Unavailable, "this node may be behind")
}

func TestNodeThatIsBehindDoesNotDenyARun(t *testing.T) {
	s := newTestServer(t, setup{between: func(all *session.Sessions) pages.Sessions { return behind{all} }})
	id := chat.MakeID(7, 3)
	s.refused(http.StatusServiceUnavailable, "/ag-ui/demo", `{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[],"state":{}}`, "Last-Event-ID", id.Text(chat.EventPrefix)+".4")
	if code, text, _ := s.Call("GET", "/ag-ui/demo?offset=-1&runId="+id.Text(chat.TurnPrefix), ""); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}
}
