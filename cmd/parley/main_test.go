package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cli runs one command line in this process.
func cli(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// succeed runs a command line that must succeed.
func succeed(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, out, errs := cli(t, stdin, args...)
	if code != exitOK {
		t.Fatalf("parley %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

var readyLine = regexp.MustCompile(`http://[0-9.:]+`)

// launch runs the real server on a data folder and returns its address.
func launch(t *testing.T, data string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"serve", "--addr=127.0.0.1:0", "--data=" + data, "--min-free=-1", "--min-free-percent=-1", "--log-level=error", "--nats=off"}, nil, in, &errs)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	url := ""
	for url == "" && lines.Scan() {
		url = readyLine.FindString(lines.Text())
	}
	drained := make(chan struct{})
	go func() { io.Copy(io.Discard, out); close(drained) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("the server ended with %d: %s", code, errs.String())
		}
		<-drained
	})
	if url == "" {
		t.Fatal("the server did not become ready")
	}
	t.Setenv("PARLEY_URL", url)
	t.Setenv("PARLEY_TOKEN", "")
	return url
}
