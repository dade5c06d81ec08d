package x1

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// outlet is the way out while a connection is there.
type outlet struct {
	p        *projector
	conn     *nats.Conn
	stream   jetstream.Stream
	external bool

	mu    sync.Mutex
	sick  sync.Cond // there are mends, or the end has come
	mends []job
}

// do publishes one job.
func (o *outlet) do(ctx context.Context, j job) {
	switch j.what {
	case sendFact:
		o.p.mu.Lock()
		skip := j.lane.behind || j.lane.gone // what it lacks is read from the log
		o.p.mu.Unlock()
		if skip {
			return
		}
		if err := o.send(ctx, j.lane, j.fact, j.at); err != nil {
			o.p.mu.Lock()
			o.p.fallBack(j.lane, j.at)
			o.p.mu.Unlock()
		}
	case sendPiece:
		// One that does not get out is in the finished block.
		if o.heard(j.lane, Delta) {
			_ = o.conn.Publish(o.subject(j.lane, Delta), EncodePreview(j.lane.id, j.piece))
		}
	case repair, purge:
		o.mu.Lock()
		o.mends = append(o.mends, j)
		o.mu.Unlock()
		o.sick.Signal()
	}
}

// subject is where we publish so that it comes out on the session's subject.
func (o *outlet) subject(l *lane, k Kind) string {
	if o.external {
		return "x1.session." + l.token + "." + string(k)
	}
	return outPrefix + l.token + "." + string(k)
}

// heard reports whether anybody would get what is published. Where that is not
// known it is yes.
func (o *outlet) heard(l *lane, k Kind) bool {
	ask := o.p.d.opt.Listened
	return ask == nil || ask("x1.session."+l.token+"."+string(k))
}

// send publishes one event: to the sidecar, live, and to the archive.
func (o *outlet) send(ctx context.Context, l *lane, f chat.Fact, at chat.At) error {
	label, err := f.Label()
	data := f.JSON
	if err == nil && spelled[label.Type] != nil {
		data, err = Encode(f)
	}
	if err != nil {
		// A stored event that cannot be read is named and goes out as it is.
		o.p.d.log.ErrorContext(ctx, "a stored event cannot be read", "session", l.id, "sequence", f.Seq, "err", err)
		data = f.JSON
	}
	if err := o.deliver(ctx, l.id, f, label.Type); err != nil {
		return err
	}
	if o.heard(l, Events) {
		if err := o.conn.Publish(o.subject(l, Events), data); err != nil {
			return err
		}
	}
	return o.p.acks.publish(ctx, o.conn, l, o.subject(l, Archive), data, at)
}
