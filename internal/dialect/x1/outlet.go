package x1

import (
	"context"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// outlet is the way out while a connection is there.
type outlet struct {
	p      *projector
	conn   *nats.Conn
	stream jetstream.Stream

	mu    sync.Mutex
	sick  sync.Cond // there are mends, or the end has come
	mends []job
}

// do publishes one job.
func (o *outlet) do(ctx context.Context, j job) {
	switch j.what {
	case sendFact:
		if j.lane.off.Load() {
			return // what it lacks is read from the log
		}
		if err := o.send(ctx, j.lane, j.fact, j.typ, j.at); err != nil {
			o.p.mu.Lock()
			o.p.fallBack(j.lane, j.at)
			o.p.mu.Unlock()
		}
	case sendPiece:
		// One that does not get out is in the finished block.
		if o.heard(j.lane.delta) {
			_ = o.conn.Publish(j.lane.delta, EncodePreview(j.lane.id, j.piece))
		}
	case repair, purge:
		o.mu.Lock()
		o.mends = append(o.mends, j)
		o.mu.Unlock()
		o.sick.Signal()
	}
}

// heard reports whether anybody would get what is published on a subject of ours.
// Where that is not known it is yes.
func (o *outlet) heard(subject string) bool {
	ask := o.p.d.opt.Listened
	return ask == nil || ask(sessionPrefix+strings.TrimPrefix(subject, outPrefix))
}

// send publishes one event: to the sidecar, live, and to the archive.
func (o *outlet) send(ctx context.Context, l *lane, f chat.Fact, typ string, at chat.At) error {
	data, limit := f.JSON, int(o.conn.MaxPayload())
	if spelled[typ] != nil || len(data) > limit {
		var err error
		if data, err = fit(l.id, f, limit); err != nil {
			// A stored event that cannot be read is named and goes out as it is.
			o.p.d.log.ErrorContext(ctx, "a stored event cannot be read", "session", l.id, "sequence", f.Seq, "err", err)
		}
	}
	if err := o.deliver(ctx, l.id, f, typ); err != nil {
		return err
	}
	return o.p.acks.publish(ctx, l, data, at)
}
