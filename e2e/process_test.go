// Test support: starting programs and sending requests.

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/sleep"
)

// output collects what a process prints; it can be read while the process runs.
type output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{} // buffered, one element
}

func newOutput() *output { return &output{changed: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a program that was started.
type process struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err *output
	done     chan struct{} // closed when it has ended
	failure  error         // of Wait; set before done is closed
	url      string        // of a server
	addr     string
}

// cleanEnv is an environment without Parley's settings. Servers start NATS only where a
// test passes the flag.
func cleanEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "PARLEY_NATS=off"}
}

// launch starts a program and makes sure that it ends with the test.
func launch(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), out: newOutput(), err: newOutput(), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = p.out, p.err, cleanEnv()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.failure = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s\nstdout: %s\nstderr: %s", strings.Join(p.cmd.Args, " "), p.out, tail(p.err.String()))
		}
	})
	return p
}

func tail(s string) string {
	if len(s) > 4000 {
		return "…" + s[len(s)-4000:]
	}
	return s
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// code waits for the end and returns the exit code.
func (p *process) code(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("it did not end within %s\nstderr: %s", within, tail(p.err.String()))
		return -1
	}
}

// terminate sends SIGTERM and returns the exit code.
func (p *process) terminate() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.code(60 * time.Second)
}

// terminateAfter sends SIGTERM after a delay.
func (p *process) terminateAfter(d time.Duration) int {
	p.t.Helper()
	sleep.For(p.t.Context(), d)
	return p.terminate()
}

var readyLine = regexp.MustCompile(`(?:is ready|listens) at (https?://(127\.0\.0\.1:\d+))`)

// serve starts a server on a free port and waits until it is ready, NATS included. It
// ignores how full the disk is.
func serve(t testing.TB, data string, args ...string) *process {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", data, args...)
}

func serveAt(t testing.TB, addr, data string, args ...string) *process {
	t.Helper()
	all := []string{"serve", "--addr", addr, "--data", data, "--min-free=-1", "--min-free-percent=-1"}
	p := launch(t, binary, append(all, args...)...)
	late := time.NewTimer(60 * time.Second)
	defer late.Stop()
	// The first node of a cluster cannot have NATS before the others are there.
	withNATS := slices.Contains(args, "--nats") && !slices.Contains(args, "off") && !slices.Contains(args, "--cluster-listen")
	for {
		text := p.out.String()
		if m := readyLine.FindStringSubmatch(text); m != nil && (!withNATS || strings.Contains(text, "find NATS at ")) {
			p.url, p.addr = m[1], m[2]
			return p
		}
		select {
		case <-p.out.changed:
		case <-p.done:
			t.Fatalf("the server ended: %v\nstderr: %s", p.failure, p.err)
		case <-late.C:
			t.Fatalf("the server is not ready\nstderr: %s", p.err)
		}
	}
}

// command runs the program to its end.
func command(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := launch(t, binary, args...)
	code = p.code(time.Minute) // some commands wait 30 s for the server
	return code, p.out.String(), p.err.String()
}

// connect returns a client of the server that reconnects quickly.
func (p *process) connect(token string) *client.Client {
	p.t.Helper()
	return connect(p.t, p.url, token)
}

func connect(t testing.TB, url, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{
		URL: url, Token: token, Retries: 400, Backoff: client.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond},
		HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// call is one HTTP request.
type call struct {
	method, path, token, body string
	header                    map[string]string
	host                      string
	client                    *http.Client
}

// do sends the call and returns the whole answer.
func (p *process) do(c call) (int, string, http.Header) {
	p.t.Helper()
	ctx, cancel := context.WithTimeoutCause(p.t.Context(), 60*time.Second, errors.New("no answer in time"))
	defer cancel()
	res := p.send(ctx, c)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	return res.StatusCode, string(b), res.Header
}

// send sends the call and returns the response with an unread body.
func (p *process) send(ctx context.Context, c call) *http.Response {
	p.t.Helper()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	if c.method == "" {
		c.method = "GET"
	}
	r, err := http.NewRequestWithContext(ctx, c.method, p.url+c.path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Parley-Request", "1")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for k, v := range c.header {
		r.Header.Set(k, v)
	}
	if c.host != "" {
		r.Host = c.host
	}
	if c.client == nil {
		c.client = &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}}
	}
	res, err := c.client.Do(r)
	if err != nil {
		p.t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	return res
}

// must sends a call that has to succeed and returns the body.
func (p *process) must(c call) string {
	p.t.Helper()
	code, body, _ := p.do(c)
	if code >= 300 {
		p.t.Fatalf("%s %s: %d %s", c.method, c.path, code, body)
	}
	return body
}

func (p *process) get(path string) string {
	p.t.Helper()
	return p.must(call{path: path})
}

func (p *process) post(path, body string) string {
	p.t.Helper()
	return p.must(call{method: "POST", path: path, body: body})
}
