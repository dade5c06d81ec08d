package parley_test

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	usualLines = 3000 // of a package that largePackages does not name
	spareLines = 1000 // a limit that is higher by so many has to be lowered
)

// largePackages are the packages that may have more than usualLines of Go, not counting tests. A commit that raises a limit says which feature
// needs it. See decision 0027.
var largePackages = map[string]int{
	"chat":                      6000,
	"cmd/parley":                6000,
	"internal/agents/httpagent": 4500,
	"internal/cluster/node":     6000,
	"internal/dialect/letta":    5000,
	"internal/dialect/native":   4000,
	"internal/dialect/nemo":     6500,
	"internal/dialect/vertesia": 5500,
	"internal/dialect/x1":       5000,
	"internal/journal":          8500,
	"internal/session":          7500,
	"internal/terminal":         4000,
	"internal/wire":             3500,
}

func TestPackagesStayWithinTheirSize(t *testing.T) {
	lines := map[string]int{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "bench" || file == "chaos" || file == "examples" || file != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(file)
		lines[filepath.ToSlash(filepath.Dir(file))] += bytes.Count(b, []byte("\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, n := range lines {
		if limit := max(largePackages[folder], usualLines); n > limit {
			t.Errorf("%s has %d lines without tests, more than %d: make it smaller, or raise its limit in largePackages and say in the commit why", folder, n, limit)
		}
	}
	for folder, limit := range largePackages {
		if n := lines[folder]; n <= usualLines || limit-n >= spareLines {
			t.Errorf("%s has only %d lines without tests: lower its limit in largePackages, or remove it there", folder, n)
		}
	}
}

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
