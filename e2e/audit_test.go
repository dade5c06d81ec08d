// Tests of the audit log.

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// TestAuditLogListsAccess performs audited actions in several dialects and workspaces,
// and reads the entries as administrators and on the command line, also after a kill.
func TestAuditLogListsAccess(t *testing.T) {
	const root, tea, ann = "root-0123456789abcdef", "tea-root-0123456789abcdef", "ann-0123456789abcdef"
	tokens := filepath.Join(t.TempDir(), "tokens")
	lines := root + " admin,user root\n" + tea + " admin,user teaman tea\n" + ann + " user ann\n"
	if err := os.WriteFile(tokens, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	const boss, wrong = "boss-0123456789abcdef", "wrong-0123456789abcdef"
	p := serve(t, data, "--token-file", tokens, "--token", boss)
	as := func(token, method, path, body string) (int, string) {
		code, answer, _ := p.do(call{method: method, path: path, token: token, body: body})
		return code, answer
	}
	must := func(token, method, path, body string) string {
		t.Helper()
		code, answer := as(token, method, path, body)
		if code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, code, answer)
		}
		return answer
	}
	const sessions = "/parley/v1/sessions"
	must(ann, "POST", sessions, `{"id":"s1","agent":"none"}`)
	must(ann, "POST", sessions+"/s1/events", `{"type":"user.message","payload":{"text":"the secret of ann"}}`)
	must(ann, "PATCH", sessions+"/s1", `{"members":[{"actor":{"kind":"user","id":"bob"},"role":"viewer"}]}`)
	must(ann, "GET", sessions+"/s1/export", "")
	if code, _ := as(ann, "GET", "/parley/v1/backup", ""); code != 403 {
		t.Errorf("a user's backup: %d", code)
	}
	must(boss, "GET", "/parley/v1/backup", "")
	must(ann, "POST", "/api/workspaces/default/grants", `{"grant_type":"spawn","agent_id":"demo","scope":"persistent","reason":"because of the secret"}`)
	must(ann, "DELETE", sessions+"/s1", "")
	must(tea, "POST", sessions, `{"id":"t1","agent":"none"}`)
	must(tea, "DELETE", sessions+"/t1", "")
	var agent struct{ ID string }
	if err := json.Unmarshal([]byte(must(ann, "POST", "/v1/agents/", `{"model":"parley/demo"}`)), &agent); err != nil {
		t.Fatal(err)
	}
	must(ann, "DELETE", "/v1/agents/"+agent.ID, "")

	list := func(token string) (out []string, raw string) {
		var page chat.AuditPage
		raw = must(token, "GET", "/parley/v1/audit?order=asc&limit=1000", "")
		if err := json.Unmarshal([]byte(raw), &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if e.Address != "" && e.Address != "127.0.0.1" {
				t.Errorf("the address is %q", e.Address)
			}
			who := ""
			if e.Actor != nil {
				who = e.Actor.ID
			}
			out = append(out, fmt.Sprintf("%s %s %s %s", e.Event, who, e.Session, e.Outcome))
		}
		return out, raw
	}
	// until waits for entries; they are stored asynchronously.
	until := func(token string, want ...string) string {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			got, raw := list(token)
			missing := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return slices.Contains(got, s) })
			if len(missing) == 0 {
				return raw
			}
			if time.Now().After(deadline) {
				t.Fatalf("missing: %q\nlisted:\n%s", missing, strings.Join(got, "\n"))
			}
		}
	}
	want := []string{
		"members_changed ann s1 done", "session_exported ann s1 done", "backup ann  denied", "backup admin  done",
		"grant_created ann  done", "session_erased ann s1 done", "session_erased ann " + agent.ID + " done",
	}
	raw := until(root, want...)
	if strings.Contains(raw, "secret") || strings.Contains(raw, ann) || strings.Contains(raw, root) {
		t.Errorf("a message or a token is in the log: %s", raw)
	}
	if !strings.Contains(raw, "user:bob viewer") {
		t.Errorf("the new member is not named: %s", raw)
	}
	// An administrator of one workspace sees only its entries; users see none.
	if got, _ := list(root); slices.Contains(got, "session_erased teaman t1 done") {
		t.Error("the administrator of one workspace sees another one's entries")
	}
	// Entries about the whole server are for administrators of all workspaces.
	for range 50 {
		if code, _ := as(wrong, "GET", sessions, ""); code != 401 && code != 429 {
			t.Errorf("a wrong token: %d", code)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	everything := append(want, "session_erased teaman t1 done", "sign_in_refused   unauthenticated", "tokens_reloaded parley  done")
	if raw := until(boss, everything...); strings.Contains(raw, wrong) {
		t.Errorf("a token is in the log: %s", raw)
	}
	if got, _ := list(root); slices.Contains(got, "sign_in_refused   unauthenticated") {
		t.Error("the administrator of one workspace sees refused sign-ins")
	}
	until(tea, "session_erased teaman t1 done")
	if got, _ := list(tea); slices.Contains(got, "session_erased ann s1 done") {
		t.Error("the administrator of one workspace sees another one's entries")
	}
	if code, answer := as(ann, "GET", "/parley/v1/audit", ""); code != 403 {
		t.Errorf("a user: %d %s", code, answer)
	}
	month := "/parley/v1/sessions/sys-audit-" + time.Now().UTC().Format("2006-01")
	if code, answer := as(root, "DELETE", month, ""); code < 400 {
		t.Errorf("an administrator erases the log: %d %s", code, answer)
	}

	p.kill()
	p = serve(t, data, "--token-file", tokens, "--token", boss)
	until(boss, everything...)
	code, out, stderr := command(t, "audit", "--url", p.url, "--token", root, "--event", "session_erased", "--session", "s1")
	if code != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, "session_erased") || !strings.Contains(out, "user:ann") {
		t.Errorf("%d\n%s%s", code, out, stderr)
	}
	if code, _, stderr := command(t, "audit", "--url", p.url, "--token", ann); code != 1 || !strings.Contains(stderr, "scope admin") {
		t.Errorf("a user on the command line: %d %s", code, stderr)
	}
}
