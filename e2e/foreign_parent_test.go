// Proves: a session cannot write to a parent that it may not see.

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/freeport"
)

// TestForeignParentReceivesNothing: a session that names another user's session, a
// system session or itself as its parent writes nothing there, with and without NATS,
// also after a restart.
func TestForeignParentReceivesNothing(t *testing.T) {
	t.Parallel()
	for name, bus := range map[string]string{"without NATS": "off", "with NATS": freeport.Addr(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, data := filepath.Join(t.TempDir(), "tokens"), t.TempDir()
			lines := []string{tokenOf("alice") + " user alice", tokenOf("bob") + " user bob", tokenOf("far") + " user far elsewhere", tokenOf("root") + " user,agent,admin root *"}
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			start := func() *process { return serve(t, data, "--token-file", file, "--nats", bus) }
			p := start()
			post := func(who, path, body string) {
				t.Helper()
				p.must(call{method: "POST", path: "/parley/v1/sessions" + path, token: tokenOf(who), body: body})
			}
			logOf := func(id string) string {
				return p.must(call{path: "/parley/v1/sessions/" + id + "/events?limit=1000", token: tokenOf("root")})
			}
			waitAnswered := func(id, text string) {
				t.Helper()
				waitFor(t, func() bool {
					log := logOf(id)
					at := strings.LastIndex(log, text)
					return at >= 0 && strings.Contains(log[at:], `"turn.completed"`)
				}, "not in time: the turn in "+id+" ends")
			}
			for _, who := range []string{"alice", "far"} {
				post(who, "", `{"id":"of-`+who+`","agent":"demo"}`)
			}
			forged := map[string]string{"child-x": "of-alice", "x": "of-alice", "child-y": "of-far", "child-z": "child-z", "child-s": "sys-grants"}
			for id, victim := range forged {
				post("bob", "", `{"id":"`+id+`","agent":"demo","parent":"`+victim+`","metadata":{"x1_parent":{"parent":"`+victim+`"}}}`)
				post("bob", "/"+id+"/events", `{"type":"user.message","payload":{"text":"/echo from bob","from_session_id":"`+victim+`"}}`)
				waitAnswered(id, "from bob")
			}
			for round := range 2 {
				// The answer to this message would come after a synthetic one.
				post("alice", "/of-alice/events", `{"type":"user.message","payload":{"text":"/echo mine"}}`)
				waitAnswered("of-alice", "mine")
				for id, victim := range forged {
					if victim == "sys-grants" {
						continue
					}
					if log := logOf(victim); victim != id && strings.Contains(log, "from bob") || strings.Contains(log, `"is_synthetic"`) {
						t.Errorf("round %d: %s wrote into %s:\n%s", round, id, victim, log)
					}
				}
				if code, log, _ := p.do(call{path: "/parley/v1/sessions/sys-grants/events", token: tokenOf("root")}); strings.Contains(log, "from bob") {
					t.Error(code, log)
				}
				p.kill()
				p = start()
			}
		})
	}
}
