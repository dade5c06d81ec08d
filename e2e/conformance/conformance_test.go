// Package conformance drives the real binary with published clients, such as npm ws, openai and NATS. It needs node and npm, and fails without them.
package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// command is a program that ends with the test, with its child processes.
func command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// installed reports whether the packages of the lock file are there. npm writes the file in node_modules when it is done.
func installed(t *testing.T) bool {
	t.Helper()
	lock, err := os.Stat("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	done, err := os.Stat("node_modules/.package-lock.json")
	return err == nil && done.ModTime().After(lock.ModTime())
}

func TestConformance(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "parley")
	if out, err := command(t, ".", "go", "build", "-o", binary, "../../cmd/parley").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if !installed(t) {
		if out, err := command(t, ".", "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	scripts, err := filepath.Glob("*.test.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(script, ".test.mjs"), func(t *testing.T) {
			frames := filepath.Join(t.TempDir(), "frames")
			cmd := command(t, ".", "node", "--test", "--test-reporter=spec", script)
			cmd.Env = append(os.Environ(), "PARLEY_BIN="+binary, "PARLEY_FRAMES="+frames)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			checkFrames(t, frames)
		})
	}
}

// checkFrames checks every frame that a client received with the published schemas.
func checkFrames(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return // this client uses no WebSocket
	}
	if err != nil {
		t.Fatal(err)
	}
	compiler, known := jsonschema.NewCompiler(), map[string]*jsonschema.Schema{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var line struct {
			Schema string
			Frame  json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		var f struct{ Type string }
		if err := json.Unmarshal(line.Frame, &f); err != nil {
			t.Fatal(err)
		}
		name := line.Schema
		if name == "nemo" || f.Type == "auth_response_message" {
			name = f.Type
		}
		if known[name] == nil {
			if known[name], err = compiler.Compile("../../docs/schemas/nemo/" + name + ".json"); err != nil {
				t.Fatalf("%s: %v", line.Frame, err)
			}
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line.Frame))
		if err != nil {
			t.Fatal(err)
		}
		if err := known[name].Validate(v); err != nil {
			t.Errorf("%s\n%v", line.Frame, err)
		}
		n++
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Errorf("%d frames were checked (%v)", n, err)
	}
	t.Logf("%d frames fit their schemas", n)
}
