package load

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// sampleEvery is how many readers share one whose latencies are measured.
const sampleEvery = 8

// Crowd is many readers on raw connections. They count the stamps that arrive
// and measure how old those are.
type Crowd struct {
	seen  atomic.Int64 // stamps
	gone  atomic.Int64 // connections that ended
	bytes atomic.Int64
	size  int

	mu   sync.Mutex
	hist Hist

	poll *poller
}

// member is one reader.
type member struct {
	scanner
	sample bool
}

// NewCrowd returns an empty crowd that reads until Close.
func NewCrowd() (*Crowd, error) {
	c := &Crowd{}
	var err error
	c.poll, err = newPoller(c)
	return c, err
}

// Add takes a connection over and reads from it until it ends. first is what
// was read from it already.
func (c *Crowd) Add(conn net.Conn, first []byte) error {
	m := &member{sample: c.size%sampleEvery == 0}
	c.size++
	c.take(m, first)
	return c.poll.add(conn, m)
}

// Len is how many readers were added.
func (c *Crowd) Len() int { return c.size }

// Seen is how many stamps all readers have got so far.
func (c *Crowd) Seen() int64 { return c.seen.Load() }

// Bytes is how much all readers have got so far.
func (c *Crowd) Bytes() int64 { return c.bytes.Load() }

// Take returns the latencies measured since the last call.
func (c *Crowd) Take() Hist {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hist
	c.hist = Hist{}
	return h
}

// Wait returns when so many stamps have been seen. It fails when nothing
// arrives for a while or readers were cut off.
func (c *Crowd) Wait(stamps int64) error {
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

// Close cuts all readers off and waits for them.
func (c *Crowd) Close() error { return c.poll.close() }

// take counts what is in b.
func (c *Crowd) take(m *member, b []byte) {
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
	c.bytes.Add(int64(len(b)))
	if n > 0 {
		c.seen.Add(int64(n))
	}
}

// readAll reads one connection to its end.
func readAll(c *Crowd, conn net.Conn, m *member) {
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
