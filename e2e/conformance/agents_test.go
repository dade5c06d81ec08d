package conformance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/modeltest"
)

// toolScript is a model that uses the tools of MCP servers from npm: first those without prompts, then the one that asks a
// person.
func toolScript(dir string) modeltest.Script {
	return func(r modeltest.Request) modeltest.Reply {
		results := r.Results()
		server, _, _ := strings.Cut(r.LastUser(), " ")
		call := func(tool, args string) modeltest.Call {
			return modeltest.Call{ID: "c", Name: server + "__" + tool, Args: args}
		}
		switch {
		case server == "files" && len(results) == 0:
			return modeltest.Reply{Calls: []modeltest.Call{call("write_file", fmt.Sprintf(`{"path":%q,"content":"kept by a tool"}`, filepath.Join(dir, "note.txt")))}}
		case server == "files" && len(results) == 1:
			return modeltest.Reply{Calls: []modeltest.Call{call("read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "note.txt")))}}
		case server != "files" && len(results) == 0:
			return modeltest.Reply{Calls: []modeltest.Call{
				call("get-sum", `{"a":20,"b":22}`), call("trigger-long-running-operation", `{"duration":0.6,"steps":2}`),
				call("get-tiny-image", `{}`), call("get-env", `{}`),
			}}
		case server != "files" && len(results) == 4:
			return modeltest.Reply{Calls: []modeltest.Call{call("trigger-elicitation-request", `{}`)}}
		}
		return modeltest.Reply{Text: "Last of all: " + results[len(results)-1].Text}
	}
}

// The model agent of the real binary uses published MCP servers, over standard input and output and over HTTP.
func TestPublishedMCPServers(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "parley")
	if out, err := command(t, ".", "go", "build", "-o", binary, "../../cmd/parley").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(here, "node_modules", "@modelcontextprotocol")
	if _, err := os.Stat(filepath.Join(modules, "server-everything", "dist", "index.js")); err != nil {
		if out, err := command(t, ".", "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	everything := filepath.Join(modules, "server-everything", "dist", "index.js")
	dir := t.TempDir()
	model := httptest.NewServer(&modeltest.Server{Script: toolScript(dir)})
	defer model.Close()
	config := filepath.Join(t.TempDir(), "parley.yaml")
	text := fmt.Sprintf(`agents:
  - name: helper
    kind: model
    endpoint: %s/v1
    model: scripted
    mcp:
      - {name: files, command: [node, %q, %q]}
      - {name: pipe, command: [node, %q], approval: never}
      - {name: web, url: "http://%s/mcp", approval: never}
    tools:
      - {match: files__read_*, approval: never}
`, model.URL, filepath.Join(modules, "server-filesystem", "dist", "index.js"), dir, everything, overHTTP(t, everything))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := parley(t, binary, config)
	for _, server := range []string{"files", "pipe", "web"} {
		t.Run(server, func(t *testing.T) { useServer(t, c, server) })
	}
	agents, err := c.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		if !a.Healthy {
			t.Errorf("%s is unhealthy: %s", a.Name, a.Problem)
		}
	}
}

// overHTTP starts the MCP server "everything" at an address.
func overHTTP(t *testing.T, program string) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(freeport.Addr(t))
	cmd := command(t, ".", "node", program, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	says, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening") {
			t.Cleanup(func() {
				_ = cmd.Cancel()
				for lines.Scan() {
				}
				_ = cmd.Wait() // it was killed
			})
			return "127.0.0.1:" + port
		}
	}
	t.Fatal("the MCP server does not listen")
	return ""
}

// parley starts the binary with a configuration.
func parley(t *testing.T, binary, config string) *client.Client {
	t.Helper()
	// Not with the test's context, which ends before its cleanup begins.
	cmd := exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--config", config, "--nats", "off", "--min-free=-1", "--min-free-percent=-1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := regexp.MustCompile(`is ready at (http://\S+)`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		m := ready.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			for lines.Scan() {
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
		c, err := client.New(client.Options{URL: m[1]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	t.Fatal("the server did not become ready")
	return nil
}

// useServer sends messages to the agent until it has used a server, and answers its prompts.
func useServer(t *testing.T, c *client.Client, server string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	id := chat.SessionID("with-" + server)
	if _, err := c.Create(ctx, client.NewSession{ID: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Say(ctx, id, server+" please"); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	progress, asked, approved := 0, 0, 0
	for f, err := range c.Watch(ctx, id, client.WatchOptions{}) {
		if err != nil {
			t.Fatalf("%v\n%s", err, log.String())
		}
		if f.Event == nil {
			continue
		}
		fmt.Fprintf(&log, "%s %s\n", f.Event.Type, f.Event.Payload)
		switch b := f.Event.Body.(type) {
		case chat.AgentApprovalRequest:
			approved++
			_, err = c.Answer(ctx, id, b.RequestID, chat.Answer{Decisions: []chat.Decision{{CallID: b.Calls[0].CallID, Approve: true}}})
		case chat.AgentInputRequest:
			asked++
			_, err = c.Answer(ctx, id, b.RequestID, replyTo(b))
		case chat.AgentToolProgress:
			if b.Total == 2 {
				progress++
			}
		case chat.AgentToolError:
			t.Errorf("%s: %s", b.Tool, b.Error)
		case chat.TurnCompleted:
			check(t, server, log.String(), b, progress, asked, approved)
			return
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, log.String())
		}
	}
}

// replyTo answers a field of a form.
func replyTo(q chat.AgentInputRequest) chat.Answer {
	if len(q.Options) > 0 {
		return chat.Answer{Values: []string{q.Options[0].Answer()}}
	}
	if strings.Contains(q.Text, "legal name") {
		return chat.Answer{Text: "Ann Example"}
	}
	return chat.Answer{Text: ""}
}

func check(t *testing.T, server, log string, end chat.TurnCompleted, progress, asked, approved int) {
	t.Helper()
	if end.Outcome != chat.Done {
		t.Fatalf("the turn ended as %s: %s\n%s", end.Outcome, end.Error, log)
	}
	want := []string{"kept by a tool"}
	if server != "files" {
		want = []string{"42", `"media_type":"image/png"`, "Ann Example", "Last of all"}
		if progress == 0 || asked < 10 {
			t.Errorf("%d reports of progress, %d questions", progress, asked)
		}
	} else if approved != 1 {
		t.Errorf("%d approvals", approved)
	}
	for _, w := range want {
		if !strings.Contains(log, w) {
			t.Errorf("no %s in\n%s", w, log)
		}
	}
	for _, secret := range []string{"PARLEY_TOKEN", "PARLEY_CONFIG", "GOFLAGS"} { // the program's own environment is not the tool's
		if server == "pipe" && strings.Contains(log, secret) {
			t.Errorf("%s went to the tool", secret)
		}
	}
}
