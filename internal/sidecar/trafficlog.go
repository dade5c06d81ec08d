package sidecar

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
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
	s      *Sidecar
	number atomic.Int64
	queue  chan *record
	unsent *record // taken from the queue and not stored
}

// maxQueue bounds the waiting records. Newer ones are dropped; their numbers are missing.
const maxQueue = 10_000

func newTrafficRecorder(s *Sidecar) *trafficRecorder {
	return &trafficRecorder{s: s, queue: make(chan *record, maxQueue)}
}

func (a *trafficRecorder) add(r record) {
	r.Session, r.Epoch, r.At = a.s.opt.Session, a.s.write.epoch, time.Now().UTC().Format(time.RFC3339Nano)
	r.Number = a.number.Add(1)
	select {
	case a.queue <- &r:
	default:
	}
}

// run publishes until ctx ends.
func (a *trafficRecorder) run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case r := <-a.queue:
			a.publish(ctx, r)
		case <-ctx.Done():
		}
	}
	return nil
}

// drain publishes the waiting records.
func (a *trafficRecorder) drain(ctx context.Context) {
	if a.unsent != nil {
		a.publish(ctx, a.unsent)
	}
	for ctx.Err() == nil {
		select {
		case r := <-a.queue:
			a.publish(ctx, r)
		default:
			return
		}
	}
}

// publish repeats a record until it is stored.
func (a *trafficRecorder) publish(ctx context.Context, r *record) {
	b, err := json.Marshal(r)
	for wait := 50 * time.Millisecond; err == nil; wait = min(2*wait, 2*time.Second) {
		_, _, failed := a.s.conn.request(ctx, x1.Subject(a.s.opt.Session, x1.Traffic), b, requestWait)
		if failed == nil {
			return
		}
		if errors.Is(failed, nats.ErrMaxPayload) {
			// It could never be sent and would block the records after it.
			a.s.log.Warn("a traffic record is too large for NATS and was dropped", "bytes", len(b))
			return
		}
		if sleep.For(ctx, wait) != nil {
			a.unsent = r
			return
		}
	}
}
