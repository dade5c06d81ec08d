// Tests of workstreams under kills, in the documentation and from a worker.

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
)

// countEvents counts the events of a reader by type and workstream.
func countEvents(r *reader) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, e := range r.events {
		about := e.Workstream
		switch b := e.Body.(type) {
		case chat.WorkstreamLaunched:
			about = b.ID
		case chat.WorkstreamWarning:
			about = b.ID
		case chat.WorkstreamCompleted:
			about = b.ID
		}
		n[e.Type+" "+about]++
	}
	return n
}

// TestWorkstreamsSurviveKills kills the server while eight workstreams run. Each
// continues and is answered once, and there is one summary.
func TestWorkstreamsSurviveKills(t *testing.T) {
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveAt(t, addr, data)
	p.post("/parley/v1/sessions", `{"id":"job"}`)
	r, ctx := follow(t, p, "job")
	p.post("/parley/v1/sessions/job/events", `{"type":"user.message","payload":{"text":"/work 8 5"}}`)
	for kill := range 2 {
		// While the workstreams write.
		r.pieces(ctx, t, 20*(kill+1))
		p.kill()
		p = serveAt(t, addr, data)
	}
	if _, err := r.until(ctx, func(e chat.Event) bool { return e.Type == "turn.completed" && e.Workstream == "" }); err != nil {
		t.Fatal(err)
	}
	seen := countEvents(r)
	for i := range 8 {
		name := fmt.Sprintf("w%d", i+1)
		for what, want := range map[string]int{
			"workstream.launched ": 1, "workstream.completed ": 1, "turn.started ": 1, "turn.completed ": 1, "agent.tool_call ": 1,
			"agent.tool_result ": 1, "agent.text ": 5, "workstream.warning ": 0,
		} {
			if got := seen[what+name]; got != want {
				t.Errorf("%s%s: %d times, not %d", what, name, got, want)
			}
		}
	}
	if seen["turn.started "] != 1 || seen["agent.text "] != 1 {
		t.Errorf("the main line has %d turns and %d texts", seen["turn.started "], seen["agent.text "])
	}
	c := p.connect("")
	all, err := c.Workstreams(ctx, "job")
	if err != nil || len(all) != 8 {
		t.Fatal(len(all), err)
	}
	for i, w := range all {
		path := fmt.Sprintf("files/%s/result.txt", w.ID)
		if w.State != chat.WorkCompleted || w.Summary != fmt.Sprintf("Part %d of 8 is done.", i+1) || !slices.Equal(w.Files, []string{path}) {
			t.Errorf("%+v", w)
		}
		if text := p.get("/parley/v1/sessions/job/artifacts/" + path); text != fmt.Sprintf("The result of part %d.\n", i+1) {
			t.Errorf("%s holds %q", path, text)
		}
	}
	r.mu.Lock()
	for _, f := range r.faults {
		t.Error(f)
	}
	r.mu.Unlock()

	// A fork has the same history and files, and stays when its source is erased.
	fork, err := c.Fork(ctx, "job", chat.Fork{Title: "Again"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(ctx, "job"); err != nil {
		t.Fatal(err)
	}
	if text := p.get("/parley/v1/sessions/" + string(fork.ID) + "/artifacts/files/w3/result.txt"); text != "The result of part 3.\n" {
		t.Errorf("the fork's file holds %q", text)
	}
	if text := p.get("/parley/v1/sessions/" + string(fork.ID) + "/snapshot"); !strings.Contains(text, "All 8 workstreams have ended.") {
		t.Error("the fork does not have the history")
	}
	if code, out, stderr := command(t, "verify", "--url", p.url); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, stderr)
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// TestDocumentedWorkstreams runs the commands of docs/workstreams.md without changes.
func TestDocumentedWorkstreams(t *testing.T) {
	page, err := os.ReadFile("../docs/workstreams.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sh\n")
	code, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there are no commands")
	}
	p := serve(t, t.TempDir())
	cmd := exec.CommandContext(t.Context(), "sh", "-eux")
	cmd.Stdin, cmd.Env = strings.NewReader(code), append(cleanEnv(), "PARLEY="+p.url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"launch_id":"l-`, `"state":"running"`, `"state":"canceling"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands do not show %q:\n%s", want, out)
		}
	}
}

// TestWorkerLaunchesWorkstreams: a worker launches workstreams, answers them itself, and
// receives their results.
func TestWorkerLaunchesWorkstreams(t *testing.T) {
	p := serve(t, t.TempDir())
	c := p.connect("")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	work, end := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		worked <- c.Work(work, "chief", client.WorkOptions{Slots: 8}, agent.Func(func(ctx context.Context, t *agent.Turn) error {
			if launch, ok := t.Assignment(); ok {
				if err := t.Progress(ctx, chat.WorkstreamProgress{Phase: chat.PhaseSynthesizing, Message: "Soon."}); err != nil {
					return err
				}
				return t.Say(ctx, "Did: "+launch.Task)
			}
			names := []string{"one", "two"}
			for _, name := range names {
				if _, err := t.Launch(ctx, chat.Launch{ID: name, Instruction: name}); err != nil {
					return err
				}
			}
			all, err := t.Await(ctx, names...)
			if err != nil {
				return err
			}
			return t.Say(ctx, all[0].Summary+" "+all[1].Summary)
		}))
	}()
	p.post("/parley/v1/sessions", `{"id":"job","agent":"chief"}`)
	r, _ := follow(t, p, "job")
	p.post("/parley/v1/sessions/job/events", `{"type":"user.message","payload":{"text":"go"}}`)
	said, err := r.until(ctx, func(e chat.Event) bool { return e.Type == "agent.text" && e.Workstream == "" })
	if err != nil {
		t.Fatal(err)
	}
	if text := said.Body.(chat.AgentText).Text; text != "Did: one Did: two" {
		t.Errorf("it said %q", text)
	}
	if _, err := r.until(ctx, func(e chat.Event) bool { return e.Type == "turn.completed" && e.Workstream == "" }); err != nil {
		t.Fatal(err)
	}
	end()
	<-worked
}
