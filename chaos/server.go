package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
)

// server is a Parley process.
type server struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when the process has ended

	mu  sync.Mutex
	log bytes.Buffer
}

// Write collects what the process prints.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *server) printed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// startTime is how long a server may take to become ready, or to refuse.
const startTime = 30 * time.Second

// launch starts a server without waiting for it.
func (c *campaign) launch(at place) (*server, error) {
	s := &server{url: "http://" + at.addr, done: make(chan struct{})}
	s.cmd = exec.Command(c.binary, "serve", "--addr", at.addr, "--nats", at.nats, "--data", at.data, "--grace", "2s",
		"--min-free=-1", "--min-free-percent=-1", "--log-level", "warn")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = c.dir, s, s
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (`make build` makes it)", c.binary, err)
	}
	go func() {
		_ = s.cmd.Wait() // its exit code is in ProcessState
		close(s.done)
	}()
	return s, nil
}

// start starts a server and waits until it is ready.
func (c *campaign) start(ctx context.Context, at place) (*server, error) {
	s, err := c.launch(at)
	if err != nil {
		return nil, err
	}
	ok, err := s.ready(ctx)
	if err == nil && !ok {
		err = fmt.Errorf("the server did not start: %s", s.printed())
	}
	if err != nil {
		s.kill()
	}
	return s, err
}

// ready waits until the server answers. It returns false when the process ended
// instead.
func (s *server) ready(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			return false, err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return true, nil
			}
		}
		select {
		case <-s.done:
			return false, nil
		case <-ctx.Done():
			return false, fmt.Errorf("the server was not ready after %s: %s", startTime, s.printed())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill ends the process at once.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
}

// stop ends the process in order.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.done:
	case <-time.After(startTime):
		s.kill()
		return fmt.Errorf("the server did not end within %s after SIGTERM: %s", startTime, s.printed())
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server ended with %d: %s", code, s.printed())
	}
	return nil
}

// place is where a server listens and keeps its data.
type place struct{ addr, nats, data string }

// newPlace returns a place with two loopback addresses that nothing listens on.
func newPlace(data string) (place, error) {
	var at [2]string
	for i := range at {
		addr, err := freeport.Find()
		if err != nil {
			return place{}, err
		}
		at[i] = addr
	}
	return place{addr: at[0], nats: at[1], data: data}, nil
}

// connect returns a client that repeats what is safe to repeat until the server
// is back.
func connect(url string) (*client.Client, error) {
	return client.New(client.Options{URL: url, Retries: 1000, Backoff: client.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}})
}
