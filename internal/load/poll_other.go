//go:build !linux

package load

import (
	"net"
	"sync"
)

// poller reads each connection of a crowd in a goroutine of its own.
type poller struct {
	crowd *Crowd
	group sync.WaitGroup
	conns []net.Conn
}

func newPoller(c *Crowd) (*poller, error) { return &poller{crowd: c}, nil }

func (p *poller) add(conn net.Conn, m *member) error {
	p.conns = append(p.conns, conn)
	p.group.Go(func() { readAll(p.crowd, conn, m) })
	return nil
}

func (p *poller) close() error {
	for _, c := range p.conns {
		c.Close()
	}
	p.group.Wait()
	return nil
}
