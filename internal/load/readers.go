package load

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// sampleEvery: latencies are measured for one of so many readers.
const sampleEvery = 8

// Readers is a set of readers on raw connections. They count the stamps that arrive and measure their age.
type Readers struct {
	seen atomic.Int64 // stamps
	gone atomic.Int64 // connections that ended
	size int

	mu   sync.Mutex
	hist Histogram

	poll *poller
}

// reader is one reader.
type reader struct {
	scanner
	sample bool
}

// NewReaders returns an empty set of readers. They read until Close.
func NewReaders() (*Readers, error) {
	c := &Readers{}
	var err error
	c.poll, err = newPoller(c)
	return c, err
}

// Add reads from a connection until it ends. first is what was read from it before.
func (c *Readers) Add(conn net.Conn, first []byte) error {
	m := &reader{sample: c.size%sampleEvery == 0}
	c.size++
	c.take(m, first)
	return c.poll.add(conn, m)
}

// Len is how many readers were added.
func (c *Readers) Len() int { return c.size }

// Seen is how many stamps all readers have received.
func (c *Readers) Seen() int64 { return c.seen.Load() }

// Take returns the latencies measured since the last call.
func (c *Readers) Take() Histogram {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hist
	c.hist = Histogram{}
	return h
}

// Wait waits until so many stamps were received. It fails when nothing arrives for a while or a connection ended.
func (c *Readers) Wait(stamps int64) error {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	last, since := c.seen.Load(), time.Now()
	for range tick.C {
		n := c.seen.Load()
		switch {
		case n >= stamps:
			return nil
		case c.gone.Load() > 0:
			return fmt.Errorf("%d of %d readers were cut off after %d of %d messages", c.gone.Load(), c.size, n, stamps)
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > 20*time.Second:
			return fmt.Errorf("%d of %d messages arrived, then nothing more", n, stamps)
		}
	}
	return errors.New("unreachable")
}

// Close closes all connections.
func (c *Readers) Close() error { return c.poll.close() }

// take counts the stamps in b.
func (c *Readers) take(m *reader, b []byte) {
	if len(b) == 0 {
		return
	}
	var n int
	if m.sample {
		now := time.Now().UnixMicro()
		c.mu.Lock()
		n = m.scan(b, func(us int64) { c.hist.Add(time.Duration(now-us) * time.Microsecond) })
		c.mu.Unlock()
	} else {
		n = m.scan(b, nil)
	}
	if n > 0 {
		c.seen.Add(int64(n))
	}
}

// readAll reads one connection to its end.
func readAll(c *Readers, conn net.Conn, m *reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buf)
		c.take(m, buf[:n])
		if err != nil {
			c.gone.Add(1)
			return
		}
	}
}
