package x1

import (
	"context"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// publisher publishes on one connection.
type publisher struct {
	p      *projector
	conn   *nats.Conn
	stream jetstream.Stream

	mu          sync.Mutex
	repairReady sync.Cond // repairs is not empty, or the publisher ends
	repairs     []job
}

// do publishes one job.
func (o *publisher) do(ctx context.Context, j job) {
	switch j.what {
	case factTask:
		if j.projection.off.Load() {
			return // its events are read from the log
		}
		if err := o.send(ctx, j.projection, j.fact, j.typ, j.at); err != nil {
			o.p.mu.Lock()
			o.p.fallBehind(j.projection, j.at)
			o.p.mu.Unlock()
		}
	case previewTask:
		// A preview that is lost is part of the finished block.
		if o.hasSubscribers(j.projection.delta) {
			_ = o.conn.Publish(j.projection.delta, EncodePreview(j.projection.id, j.piece))
		}
	case repairTask, eraseTask:
		o.mu.Lock()
		o.repairs = append(o.repairs, j)
		o.mu.Unlock()
		o.repairReady.Signal()
	}
}

// hasSubscribers reports whether a subject has subscribers; true when that is unknown.
func (o *publisher) hasSubscribers(subject string) bool {
	listened := o.p.d.opt.Listened
	return listened == nil || listened(sessionPrefix+strings.TrimPrefix(subject, outPrefix))
}

// send publishes one event: to the sidecar, live, and to the archive.
func (o *publisher) send(ctx context.Context, l *projection, f chat.Fact, typ string, at chat.At) error {
	data, limit := f.JSON, int(o.conn.MaxPayload())
	if pageFields[typ] != nil || len(data) > limit {
		var err error
		if data, err = fit(l.id, f, limit); err != nil {
			// A stored event that cannot be read is logged and published as it is.
			o.p.d.log.ErrorContext(ctx, "a stored event cannot be read", "session", l.id, "sequence", f.Seq, "err", err)
		}
	}
	if err := o.deliver(ctx, l.id, f, typ); err != nil {
		return err
	}
	return o.p.acks.publish(ctx, l, data, at)
}
