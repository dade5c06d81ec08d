package parley_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The linker leaves out methods that nothing calls, unless some function that can be reached looks up methods by a name that is not known before, as
// text/template does. Then it keeps every exported method of every type, which made the binary 8 MB larger. See decision 0025.
func TestLinkerLeavesUnusedMethodsOut(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w -dumpdep", "-o", filepath.Join(t.TempDir(), "parley"), "./cmd/parley")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out, errs bytes.Buffer // the linker writes one line for each use of one symbol by another
	build.Stdout, build.Stderr = &out, &errs
	if err := build.Run(); err != nil {
		t.Fatalf("%v\n%.2000s", err, errs.String())
	}
	uses, found := 0, map[string]bool{}
	for lines := bufio.NewScanner(&errs); lines.Scan(); uses++ {
		for symbol := range strings.SplitSeq(lines.Text(), " -> ") {
			if name, ok := strings.CutSuffix(symbol, " <ReflectMethod>"); ok && !strings.HasPrefix(name, "reflect.") && !found[name] {
				found[name] = true
				t.Errorf("%s looks up methods by name", name)
			}
		}
	}
	if uses < 1000 {
		t.Fatalf("the linker reported only %d uses of symbols", uses)
	}
}
