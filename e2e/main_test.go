// Test support: builds the programs under test.

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// binary is the program under test; worker is the example worker in Go.
var binary, worker string

func TestMain(m *testing.M) {
	if os.Getenv(asToolServer) != "" {
		os.Exit(serveTools())
	}
	if binary = os.Getenv(asScenario); binary != "" {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "parley-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, worker = filepath.Join(dir, "parley"), filepath.Join(dir, "worker")
	for out, pkg := range map[string]string{binary: "../cmd/parley", worker: "../examples/worker"} {
		build := exec.Command("go", "build", "-o", out, pkg)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n", pkg, err)
			return 1
		}
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
