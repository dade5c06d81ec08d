// Tests of the commands of docs/native.md.

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDocumentedCommands runs the commands of docs/native.md without changes.
func TestDocumentedCommands(t *testing.T) {
	page, err := os.ReadFile("../docs/native.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	blocks := strings.Split(string(page), "```sh\n")[1:]
	for _, b := range blocks {
		code, _, ok := strings.Cut(b, "```")
		if !ok {
			t.Fatal("a block has no end")
		}
		script.WriteString(code)
	}
	p := serve(t, t.TempDir())
	cmd := exec.CommandContext(t.Context(), "sh", "-eux")
	cmd.Stdin, cmd.Env = strings.NewReader(script.String()), append(cleanEnv(), "PARLEY="+p.url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`"client_id":"c-1"`, "event: hello", "session.started", `{"shown":2}`, `"values":["sms"]`, `{"stopped":false}`, "table.csv", `"more":false`, "\na,b",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands do not show %q:\n%s", want, out)
		}
	}
	// The log has what the page says about each step.
	for path, want := range map[string]string{
		"/parley/v1/sessions/writing/events": `"text":"Fourteen."`, "/parley/v1/sessions/asking": `"open_prompts":0`,
		"/parley/v1/sessions/tour/events": "file.removed", "/parley/v1/sessions/tour/artifacts": `{"artifacts":[],"more":false}`,
	} {
		if got := p.get(path); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}
