package x1

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

const (
	maxBatch = 4096             // events with one acknowledgement; JetStream refuses more than 10 000 waiting messages
	ackWait  = 10 * time.Second // for an answer of JetStream
)

// batch is a series of events that the archive acknowledges together: only the last message
// asks for an acknowledgement. The archive has no other writer, so its sequence must have
// grown by the number of messages. This is much cheaper than one acknowledgement per
// message. projector.publishing is held from the first add until end returns.
type batch struct {
	p        *projector
	ctx      context.Context
	sessions []*projection
	oldest   chat.At
	count    int         // messages for the archive
	held     nats.Msg    // the newest of them, not sent yet: it may be the last one
	unheard  []heldEvent // events of sessions without subscribers
	err      error       // the connection is lost
}

// heldEvent is an event whose live copy was not published.
type heldEvent struct {
	projection *projection
	data       []byte
}

// newBatch begins a batch. The caller holds publishing.
func (p *projector) newBatch(ctx context.Context) *batch {
	p.batches++
	return &batch{p: p, ctx: ctx}
}

// add publishes an event: to the sidecar, to subscribers if there are any, and to the archive.
func (b *batch) add(l *projection, f chat.Fact, typ string, at chat.At) {
	p := b.p
	if l.batch != p.batches {
		l.batch, l.live = p.batches, p.hasSubscribers(l.events)
		b.sessions = append(b.sessions, l)
	}
	if b.oldest == 0 || at < b.oldest {
		b.oldest = at
	}
	if b.err != nil {
		return
	}
	if !p.counted {
		var s *archiveState
		if s, b.err = stateOf(b.ctx, p.archive); b.err != nil {
			return
		}
		p.archived, p.counted = s.Last, true
	}
	data, limit := f.JSON, int(p.conn.MaxPayload())
	if pageFields[typ] != nil || len(data) > limit {
		var err error
		if data, err = fit(l.id, f, limit); err != nil {
			// A stored event that cannot be read is logged and published as it is.
			p.d.log.ErrorContext(b.ctx, "a stored event cannot be read", "session", l.id, "sequence", f.Seq, "err", err)
		}
	}
	if b.err = p.deliver(b.ctx, l.id, f, typ); b.err != nil {
		return
	}
	if !l.live {
		b.unheard = append(b.unheard, heldEvent{l, data})
	} else if b.err = p.conn.Publish(l.events, data); b.err != nil {
		return
	}
	if b.count > 0 {
		b.err = p.conn.Publish(b.held.Subject, b.held.Data)
	}
	b.held.Subject, b.held.Data = l.archive, data
	b.count++
}

// end waits until the archive has stored the batch. If it has not, the sessions of the batch
// are behind.
//
// A client may subscribe while an event is on its way, too late for the live copy and too
// early to find the event in the archive. Therefore the subscribers are checked again at the
// end, and the live copies are published then.
func (b *batch) end() error {
	p := b.p
	if b.err == nil && b.count > 0 {
		b.err = p.confirm(b)
	}
	for _, l := range b.sessions {
		l.live = l.live || p.hasSubscribers(l.events)
	}
	for _, e := range b.unheard {
		if e.projection.live {
			_ = p.conn.Publish(e.projection.events, e.data) // a client that is disconnected now reads the archive
		}
	}
	if b.err != nil {
		p.counted, p.unconfirmed = false, true
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range b.sessions {
			if !l.erased {
				p.fallBehind(l, b.oldest)
			}
		}
	}
	return b.err
}

// subscribeAcks subscribes to acknowledgements.
func (p *projector) subscribeAcks() (err error) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.ackSubject = p.conn.NewRespInbox() + "."
	p.acks, err = p.conn.SubscribeSync(p.ackSubject + "*")
	return err
}

var errNotArchived = errors.New("the x1 archive did not store all events; the missing ones are published again")

// confirm sends the last message of a batch and waits for its acknowledgement.
func (p *projector) confirm(b *batch) error {
	reply, connects := p.ackSubject+strconv.FormatUint(p.batches, 10), p.conn.Stats().Reconnects
	if err := p.conn.PublishRequest(b.held.Subject, reply, b.held.Data); err != nil {
		return err
	}
	var ack struct {
		Seq   uint64          `json:"seq"`
		Error json.RawMessage `json:"error"`
	}
	for limit := time.Now().Add(ackWait); ; {
		m, err := p.acks.NextMsg(200 * time.Millisecond)
		if err == nil && m.Subject == reply {
			err = json.Unmarshal(m.Data, &ack)
			if want := p.archived + uint64(b.count); err != nil || ack.Error != nil || ack.Seq < want {
				p.d.log.Warn(errNotArchived.Error(), "answer", string(m.Data))
				return errNotArchived
			}
			p.archived, p.unconfirmed = ack.Seq, false
			return nil
		}
		lost := !p.conn.IsConnected() || p.conn.Stats().Reconnects != connects
		if lost || time.Now().After(limit) || b.ctx.Err() != nil {
			return errors.Join(errNotArchived, err, b.ctx.Err())
		}
	}
}

// publishQueued publishes the queued events and previews, and returns how many there were.
func (p *projector) publishQueued(ctx context.Context) int {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	jobs := p.takeQueue()
	b := p.newBatch(ctx)
	for i := range jobs {
		j := &jobs[i]
		if j.piece != nil {
			// A preview that is lost is part of the finished block.
			if p.hasSubscribers(j.projection.delta) {
				_ = p.conn.Publish(j.projection.delta, encodePreview(j.projection.id, j.piece))
			}
			continue
		}
		if p.isNext(j) {
			b.add(j.projection, j.fact, j.typ, j.at)
		}
		if b.count == maxBatch {
			_ = b.end() // its sessions are behind
			b = p.newBatch(ctx)
		}
	}
	_ = b.end() // its sessions are behind
	return len(jobs)
}

// hasSubscribers reports whether a subject has subscribers; true when that is unknown.
func (p *projector) hasSubscribers(subject string) bool {
	return p.d.opt.Listened(sessionPrefix + strings.TrimPrefix(subject, outPrefix))
}
