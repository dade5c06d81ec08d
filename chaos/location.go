package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/serverprocess"
)

// location is where a server listens and keeps its data. A server that starts again has the same one.
type location struct{ addr, nats, data string }

func newLocation(data string) (at location, err error) {
	at.data = data
	if at.addr, err = freeport.Find(); err == nil {
		at.nats, err = freeport.Find()
	}
	return at, err
}

func (at location) url() string { return "http://" + at.addr }

// launch starts a server without waiting for it.
func (c *campaign) launch(at location) (*serverprocess.Process, error) {
	return serverprocess.StartAt(at.addr, c.binary, serverprocess.Serve(at.addr, at.data, "--nats", at.nats, "--grace", "2s")...)
}

// start starts a server and waits until it is ready.
func (c *campaign) start(ctx context.Context, at location) (*serverprocess.Process, error) {
	s, err := c.launch(at)
	if err != nil {
		return nil, err
	}
	_, ok, err := s.WaitReady(ctx, "/readyz")
	if err == nil && !ok {
		err = fmt.Errorf("the server did not start: %s", s.Output())
	}
	if err != nil {
		s.Kill()
	}
	return s, err
}

// connect returns a client that repeats requests that are safe to repeat until a server answers. It goes on with the next of
// several servers when one cannot be reached.
func connect(urls ...string) (*client.Client, error) {
	return client.New(client.Options{URL: strings.Join(urls, ","), Retries: 1000, Backoff: client.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}})
}
