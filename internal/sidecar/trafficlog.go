package sidecar

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
)

// record is one HTTP call that the sidecar answered or made. Number counts within an
// epoch without gaps, so that a lost record can be noticed.
type record struct {
	Session   chat.SessionID `json:"session_id"`
	At        string         `json:"timestamp"`
	Epoch     int64          `json:"epoch"`
	Number    int64          `json:"number"`
	Direction string         `json:"direction"` // from_agent or to_agent
	Method    string         `json:"method"`
	Route     string         `json:"route"`
	Status    int            `json:"status"` // 0 when there was no answer
	Took      time.Duration  `json:"duration_ns"`
}

// trafficRecorder publishes records on the audit subject of the session. Records wait while
// the server is not connected.
type trafficRecorder struct {
	s *Sidecar

	mu      sync.Mutex
	number  int64
	queue   []record
	changed chan struct{}
}

// maxQueue bounds the waiting records. Newer ones are dropped; their numbers are missing.
const maxQueue = 10_000

func newTrafficRecorder(s *Sidecar) *trafficRecorder {
	return &trafficRecorder{s: s, changed: make(chan struct{}, 1)}
}

func (a *trafficRecorder) add(r record) {
	r.Session, r.Epoch, r.At = a.s.opt.Session, a.s.write.epoch, time.Now().UTC().Format(time.RFC3339Nano)
	a.mu.Lock()
	a.number++
	r.Number = a.number
	if len(a.queue) < maxQueue {
		a.queue = append(a.queue, r)
	}
	a.mu.Unlock()
	signal(a.changed)
}

// run publishes until ctx ends.
func (a *trafficRecorder) run(ctx context.Context) error {
	for {
		select {
		case <-a.changed:
			a.drain(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// drain publishes the waiting records and repeats each until it is stored.
func (a *trafficRecorder) drain(ctx context.Context) {
	for wait := 50 * time.Millisecond; ; {
		a.mu.Lock()
		if len(a.queue) == 0 {
			a.mu.Unlock()
			return
		}
		r := a.queue[0]
		a.mu.Unlock()
		b, err := json.Marshal(r)
		if err == nil {
			if _, _, err = a.s.conn.request(ctx, x1.Subject(a.s.opt.Session, x1.Traffic), b, requestWait); errors.Is(err, nats.ErrMaxPayload) {
				// It could never be sent and would block the records after it.
				a.s.log.Warn("a traffic record is too large for NATS and was dropped", "bytes", len(b))
			} else if err != nil {
				if !pause(ctx, wait) {
					return
				}
				wait = min(2*wait, 2*time.Second)
				continue
			}
		}
		wait = 50 * time.Millisecond
		a.mu.Lock()
		a.queue = a.queue[1:]
		a.mu.Unlock()
	}
}
