//go:build !linux

package load

import (
	"context"
	"net"
	"sync"
)

// poller reads each connection in its own goroutine.
type poller struct {
	readers *Readers
	group   sync.WaitGroup
	conns   []net.Conn
}

func newPoller(c *Readers) (*poller, error) { return &poller{readers: c}, nil }

func (p *poller) add(conn net.Conn, m *reader) error {
	p.conns = append(p.conns, conn)
	p.group.Go(func() { readAll(p.readers, conn, m) })
	return nil
}

func (p *poller) close() error {
	for _, c := range p.conns {
		c.Close()
	}
	p.group.Wait()
	return nil
}

// runWriters runs all writers until their time is over.
func runWriters(ctx context.Context, all []*writer) error { return runEach(ctx, all) }
