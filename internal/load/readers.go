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
	next   func(received []byte) []byte // see Subscription
}

// NewReaders returns an empty set of readers. They read until Close.
func NewReaders() (*Readers, error) {
	r := &Readers{}
	var err error
	r.poll, err = newPoller(r)
	return r, err
}

// Add reads from a connection until it ends. first is what was read from it before; next is that of a Subscription.
func (r *Readers) Add(conn net.Conn, first []byte, next func(received []byte) []byte) error {
	m := &reader{sample: r.size%sampleEvery == 0, next: next}
	r.size++
	if request := r.take(m, first); request != nil {
		if _, err := conn.Write(request); err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	return r.poll.add(conn, m)
}

// Len is how many readers were added.
func (r *Readers) Len() int { return r.size }

// Seen is how many stamps all readers have received.
func (r *Readers) Seen() int64 { return r.seen.Load() }

// Take returns the latencies measured since the last call.
func (r *Readers) Take() Histogram {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hist
	r.hist = Histogram{}
	return h
}

// Wait waits until so many stamps were received. It fails when nothing arrives for a while or a connection ended.
func (r *Readers) Wait(stamps int64) error {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	last, since := r.seen.Load(), time.Now()
	for range tick.C {
		n := r.seen.Load()
		switch {
		case n >= stamps:
			return nil
		case r.gone.Load() > 0:
			return fmt.Errorf("%d of %d readers were cut off after %d of %d messages", r.gone.Load(), r.size, n, stamps)
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > 20*time.Second:
			return fmt.Errorf("%d of %d messages arrived, then nothing more", n, stamps)
		}
	}
	return errors.New("unreachable")
}

// Close closes all connections.
func (r *Readers) Close() error { return r.poll.close() }

// take counts the stamps in b and returns the request that follows, nil for none.
func (r *Readers) take(m *reader, b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	var n int
	if m.sample {
		now := time.Now().UnixMicro()
		r.mu.Lock()
		n = m.scan(b, func(us int64) { r.hist.Add(time.Duration(now-us) * time.Microsecond) })
		r.mu.Unlock()
	} else {
		n = m.scan(b, nil)
	}
	if n > 0 {
		r.seen.Add(int64(n))
	}
	if m.next == nil {
		return nil
	}
	return m.next(b)
}

// readAll reads one connection to its end.
func readAll(r *Readers, conn net.Conn, m *reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buf)
		if request := r.take(m, buf[:n]); request != nil && err == nil {
			_, err = conn.Write(request)
		}
		if err != nil {
			r.gone.Add(1)
			return
		}
	}
}
