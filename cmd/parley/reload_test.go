package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const withProgram = `agents:
  - name: helper
    kind: model
    endpoint: http://127.0.0.1:9/v1
    model: none
    mcp:
      - name: tools
        command: [PROGRAM, --flag]
        env: {KEY: "${PARLEY_TEST_SECRET}"}
`

// serveHere starts a server in the current folder and ends it when it is ready.
func serveHere(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for seen := ""; ; {
			n, err := out.Read(b)
			if seen += string(b[:n]); strings.Contains(seen, "is ready at") {
				cancel()
			}
			if err != nil {
				return
			}
		}
	}()
	var errs bytes.Buffer
	args = append([]string{"serve", "--addr=127.0.0.1:0", "--data=" + filepath.Join(t.TempDir(), "data"), "--min-free=-1", "--min-free-percent=-1", "--nats=off"}, args...)
	code = run(ctx, args, nil, in, &errs)
	in.Close()
	<-read
	return code, errs.String()
}

// A configuration file in the current folder is used when it belongs to the user or is named with --config. Its programs
// are logged before they are run.
func TestConfigurationInTheFolderMustBelongToTheUser(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PARLEY_TEST_SECRET", "not-for-the-log")
	program := filepath.Join(dir, "program")
	mark := filepath.Join(dir, "it-ran")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n: > '"+mark+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("parley.yaml", []byte(strings.Replace(withProgram, "PROGRAM", program, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	logged := func(stderr string) bool {
		return strings.Contains(stderr, program+" --flag") && strings.Contains(stderr, "parley.yaml") && strings.Contains(stderr, "helper") && !strings.Contains(stderr, "not-for-the-log")
	}
	if code, stderr := serveHere(t); code != exitOK || !logged(stderr) {
		t.Errorf("the user's own file: %d\n%s", code, stderr)
	}
	_ = os.Remove(mark) // the server may have ended before it ran the program
	if err := os.Chmod("parley.yaml", 0o666); err != nil {
		t.Fatal(err)
	}
	code, stderr := serveHere(t)
	if code != exitError || !strings.Contains(stderr, "parley serve --config parley.yaml") || !strings.Contains(stderr, filepath.Join(dir, "parley.yaml")) {
		t.Errorf("a file that all users can write: %d\n%s", code, stderr)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was run")
	}
	if code, stderr := serveHere(t, "--config", "parley.yaml"); code != exitOK || !logged(stderr) {
		t.Errorf("named: %d\n%s", code, stderr)
	}
}
