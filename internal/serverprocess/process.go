// Package serverprocess starts servers as other processes on loopback addresses, for benchmarks and crash tests.
package serverprocess

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/parley-hq/parley/internal/freeport"
)

// Process is a server process. All methods may be called at the same time.
type Process struct {
	Addr string // where it listens

	cmd   *exec.Cmd
	began time.Time
	done  chan struct{} // closed when the process has ended

	mu     sync.Mutex
	output bytes.Buffer
}

// timeout is how long a process may take to get ready, and to end after SIGTERM.
const timeout = 3 * time.Minute

// Start starts a program that listens on a free address. args returns its arguments.
func Start(program string, args func(addr string) []string) (*Process, error) {
	addr, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	return StartAt(addr, program, args(addr)...)
}

// StartAt starts a program whose arguments make it listen on addr.
func StartAt(addr, program string, args ...string) (*Process, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	p := &Process{Addr: addr, cmd: exec.Command(program, args...), began: time.Now(), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = os.TempDir(), p, p // not here: there may be a parley.yaml
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (`make build` builds the server)", program, err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// Serve returns the arguments of a Parley server without limits for the free disk space.
func Serve(addr, data string, more ...string) []string {
	return append([]string{"serve", "--addr", addr, "--data", data, "--min-free=-1", "--min-free-percent=-1", "--log-level", "warn"}, more...)
}

// Write collects the output of the process.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

// Output returns what the process has printed so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// WaitReady waits until GET path answers 200 and returns the time since the start. It returns false when the process ended
// instead.
func (p *Process) WaitReady(ctx context.Context, path string) (took time.Duration, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer http.DefaultClient.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Addr+path, nil)
		if err != nil {
			return 0, false, err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return time.Since(p.began), true, nil
			}
		}
		select {
		case <-p.done:
			return 0, false, nil
		case <-ctx.Done():
			return 0, false, fmt.Errorf("%s was not ready after %s: %s", p.cmd.Path, time.Since(p.began).Round(time.Second), p.Output())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Kill ends the process at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Quit ends the process and has it print what each of its goroutines waits for.
func (p *Process) Quit() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	select {
	case <-p.done:
	case <-time.After(timeout):
		p.Kill()
	}
}

// Stop sends SIGTERM and waits until the process has ended. An exit code other than 0 is an error.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("%s did not end within %s after SIGTERM: %s", p.cmd.Path, timeout, p.Output())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with exit code %d: %s", p.cmd.Path, code, p.Output())
	}
	return nil
}
