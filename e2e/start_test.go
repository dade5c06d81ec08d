// Tests of refusals to start.

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/internal/journal"
)

// expectExit runs a command line that must exit with a code and a message.
func expectExit(t *testing.T, code int, says []string, args ...string) {
	t.Helper()
	p := launch(t, binary, args...)
	if got := p.code(20 * time.Second); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	text := p.err.String()
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("stderr does not say %q:\n%s", s, text)
		}
	}
	if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic") {
		t.Errorf("a stack trace instead of a message:\n%s", text)
	}
	if strings.Contains(p.out.String(), "ready") {
		t.Errorf("it says that it is ready: %s", p.out)
	}
}

// TestRefusesToStart: a wrong flag, file or address ends the program with a message.
func TestRefusesToStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := write("file", "not a folder")
	short := write("short", "abc user alice\n")
	odd := write("odd", "token-that-is-long-enough-0123456789 king alice\n")
	fresh := func() string { return filepath.Join(t.TempDir(), "data") }
	for name, c := range map[string]struct {
		code int
		says []string
		args []string
		data string
	}{
		"beyond loopback without authentication": {1, []string{"0.0.0.0", "--token"}, []string{"--addr", "0.0.0.0:0"}, fresh()},
		"below a regular file":                   {1, []string{"not a directory"}, []string{"--addr", "127.0.0.1:0"}, filepath.Join(file, "data")},
		"an unknown flag":                        {2, []string{"--nonsense", "parley serve --help"}, []string{"--nonsense"}, fresh()},
		"a bad value":                            {2, []string{"--sync"}, []string{"--sync", "sometimes"}, fresh()},
		"a bad duration":                         {2, []string{"--grace"}, []string{"--grace", "soon"}, fresh()},
		"a missing token file":                   {1, []string{"token file"}, []string{"--token-file", filepath.Join(dir, "none")}, fresh()},
		"a token that is too short":              {1, []string{"line 1", "16 characters"}, []string{"--token-file", short}, fresh()},
		"a scope that does not exist":            {1, []string{odd, "line 1", "king"}, []string{"--token-file", odd}, fresh()},
		"a certificate without a key":            {1, []string{"--tls-key"}, []string{"--addr", "127.0.0.1:0", "--tls-cert", file}, fresh()},
		"an invalid certificate":                 {1, []string{file}, []string{"--addr", "127.0.0.1:0", "--tls-cert", file, "--tls-key", file}, fresh()},
		"an invalid address":                     {1, []string{"nowhere"}, []string{"--addr", "nowhere"}, fresh()},
	} {
		t.Run(name, func(t *testing.T) {
			expectExit(t, c.code, c.says, append([]string{"serve", "--data", c.data}, c.args...)...)
			if _, err := os.Stat(c.data); err == nil && c.code == 2 {
				t.Error("an invalid command line created a folder")
			}
		})
	}
}

// TestPortInUse: the second server reports the port, and its data folder is unchanged.
func TestPortInUse(t *testing.T) {
	first := serve(t, t.TempDir())
	data := t.TempDir()
	old := serve(t, data)
	old.post("/parley/v1/sessions", `{"id":"s"}`)
	old.post("/parley/v1/sessions/s/events", `{"type":"user.message","payload":{"text":"/ask text"}}`)
	if code := old.terminate(); code != 0 {
		t.Fatal(code)
	}
	before := list(t, data)
	for range 4 { // as a supervisor does
		expectExit(t, 1, []string{first.addr, "in use", "--addr"}, "serve", "--addr", first.addr, "--data", data)
	}
	if got := list(t, data); got["clean"] != before["clean"] {
		t.Errorf("a start that failed counts as a crash: %v", got)
	}
	again := serve(t, data)
	if got := again.get("/parley/v1/sessions/s"); !strings.Contains(got, `"status":"waiting"`) && !strings.Contains(got, `"status":"running"`) {
		t.Errorf("failed starts changed the turn: %s", got)
	}
}

// list names the entries of a folder.
func list(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// TestDataFolderInUse: a second server with the same data folder does not start.
func TestDataFolderInUse(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	p.post("/parley/v1/sessions", `{"id":"s"}`)
	expectExit(t, 1, []string{data, "another"}, "serve", "--addr", "127.0.0.1:0", "--data", data)
	p.get("/parley/v1/sessions/s") // the first server still works
}

// TestNewerStoreIsRefused: the server does not open a store of a newer version.
func TestNewerStoreIsRefused(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	p.post("/parley/v1/sessions", `{"id":"s"}`)
	if code := p.terminate(); code != 0 {
		t.Fatal(code)
	}
	format := func(version byte) (old []byte) {
		db, err := pebble.Open(filepath.Join(data, "store", "db"), &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		v, closer, err := db.Get([]byte("f"))
		if err != nil {
			t.Fatal(err)
		}
		old = bytes.Clone(v)
		err = errors.Join(closer.Close(), db.Set([]byte("f"), []byte{version}, pebble.Sync), db.Close())
		// The journal did not make this change, so its inventory is updated.
		if err = errors.Join(err, journal.Accept(filepath.Join(data, "store"), journal.Options{})); err != nil {
			t.Fatal(err)
		}
		return old
	}
	known := format(0xee)
	expectExit(t, 1, []string{"newer version", "ee"}, "serve", "--addr", "127.0.0.1:0", "--data", data)
	format(known[0])
	p = serve(t, data)
	p.get("/parley/v1/sessions/s")
}

// silent discards Pebble's log.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestServerSurvivesClosedOutput: the server continues when its stdout and stderr are
// closed after the first line.
func TestServerSurvivesClosedOutput(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--token", "secret-of-this-test", "--min-free=-1", "--min-free-percent=-1")
	cmd.Stdout, cmd.Stderr, cmd.Env = write, write, cleanEnv()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	write.Close()
	line, err := bufio.NewReaderSize(read, 16).ReadString('(') // up to the end of the address
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	_, url, _ := strings.Cut(line, "ready at ")
	for range 20 {
		res, err := http.Get(strings.TrimSuffix(url, " (") + "/healthz")
		if err != nil {
			t.Fatalf("the server is gone: %v", err)
		}
		res.Body.Close()
	}
}
