// Tests of the program in README.md.

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeProgramInGo: the Go program of the README prints the answer of the demo agent, once.
func TestReadmeProgramInGo(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "follow")
	if out, err := exec.Command("go", "build", "-o", program, "../examples/follow").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := serve(t, t.TempDir())
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(cleanEnv(), "PARLEY_URL="+p.url)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "Hello there" {
		t.Errorf("it printed %q, %v", out, err)
	}
}
