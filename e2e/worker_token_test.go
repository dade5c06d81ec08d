// Tests of the agents that a worker's token may serve.

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkerTokenIsLimitedToItsAgents: a worker's token serves the agents that its line in
// the token file lists. A refusal names them, and the worker reads only their sessions.
func TestWorkerTokenIsLimitedToItsAgents(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	lines := []string{
		tokenOf("alice") + " user user:alice", tokenOf("ops") + " agent agent:ops agents=echo,weather",
		tokenOf("echo") + " agent agent:echo", tokenOf("all") + " agent agent:all agents=*",
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, t.TempDir(), "--token-file", file)
	for _, agent := range []string{"echo", "secret", "none"} {
		p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("alice"), body: `{"id":"of-` + agent + `","agent":"` + agent + `"}`})
		p.must(call{method: "POST", path: "/parley/v1/sessions/of-" + agent + "/events", token: tokenOf("alice"), body: `{"type":"user.message","payload":{"text":"confidential"}}`})
	}
	for _, c := range []struct {
		who, name string
		ok        bool
		says      string
	}{
		{"ops", "echo", true, ""}, {"ops", "weather", true, ""}, {"ops", "secret", false, "echo, weather"}, {"ops", "ops", false, "echo, weather"},
		{"echo", "echo", true, ""}, {"echo", "secret", false, `only the agent \"echo\"`}, {"all", "secret", true, ""},
	} {
		path := "/parley/v1/agents/" + c.name + "/work"
		if c.ok {
			if got := p.ask(tokenOf(c.who), path, `{"op":"ready","id":1,"slots":1}`); !strings.Contains(got, `"ok"`) {
				t.Errorf("%s as %s: %s", c.who, c.name, got)
			}
			continue
		}
		if code, got, _ := p.do(call{path: path, token: tokenOf(c.who)}); code != 403 || !strings.Contains(got, c.says) {
			t.Errorf("%s as %s: %d %s", c.who, c.name, code, got)
		}
	}
	for _, c := range []struct {
		who, id string
		want    int
	}{{"ops", "of-echo", 200}, {"ops", "of-secret", 404}, {"ops", "of-none", 404}, {"echo", "of-secret", 404}, {"all", "of-secret", 200}, {"all", "of-none", 404}} {
		for _, path := range []string{"", "/events", "/snapshot", "/messages"} {
			if code, got, _ := p.do(call{path: "/parley/v1/sessions/" + c.id + path, token: tokenOf(c.who)}); code != c.want || code == 404 && strings.Contains(got, "confidential") {
				t.Errorf("%s reads %s%s: %d %s", c.who, c.id, path, code, got)
			}
		}
	}
	if got := p.must(call{path: "/parley/v1/sessions", token: tokenOf("ops")}); strings.Contains(got, "of-secret") || strings.Contains(got, "of-none") {
		t.Error(got)
	}
}
