package x1

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/json"
)

// inbound receives messages. Messages of one session are handled in order by one of a
// few goroutines; appends of different sessions share commits. When the queues are full,
// messages wait at NATS.
type inbound struct {
	d    *Dialect
	seed maphash.Seed

	mu     sync.Mutex
	conn   *nats.Conn // nil until open, and after close
	subs   []*nats.Subscription
	queues []chan incoming
	ending <-chan struct{} // closed when retry gives up
}

// incoming is a received message.
type incoming struct {
	msg   *nats.Msg
	id    chat.SessionID
	kind  Kind
	guest bool            // sent with a credential for one session
	agent bool            // sent by an x1 sidecar: an agent, not a person
	done  chan<- struct{} // no message: signalled when all messages before it are handled
}

const (
	queueCount = 32
	queueSize  = 256
)

func newInbound(d *Dialect) *inbound { return &inbound{d: d, seed: maphash.MakeSeed()} }

// open subscribes and starts the goroutines, which end when ctx does.
func (k *inbound) open(ctx context.Context, conn *nats.Conn, wg *sync.WaitGroup, ending <-chan struct{}) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ending = ending
	queues := make([]chan incoming, queueCount)
	for i := range queues {
		queue := make(chan incoming, queueSize)
		queues[i] = queue
		wg.Go(func() { k.work(ctx, conn, queue) })
	}
	k.conn, k.subs, k.queues = conn, nil, queues
	subjects := []string{
		rawPrefix + "*.*", guestPrefix + "*.*",
		"x1.session.*." + string(Presence), "x1.session.*." + string(Traffic), "x1.session.*." + string(History), TrafficAll,
	}
	if k.d.opt.External {
		subjects = append(subjects, "x1.session.*."+string(Input))
	}
	for _, subject := range subjects {
		sub, err := conn.Subscribe(subject, func(m *nats.Msg) {
			a, ok := parseIncoming(m)
			if !ok {
				k.d.refuse(ctx, &a, chat.Errorf(chat.Invalid, "the subject names no session"))
				return
			}
			if name, ok := bus.Publisher(m.Header); a.guest && ok && isSidecar(name) {
				a.guest, a.agent = false, true // it serves every session
			}
			select {
			case queues[maphash.String(k.seed, string(a.id))%queueCount] <- a:
			case <-ctx.Done():
			}
		})
		if err != nil {
			return err
		}
		// Messages wait in the client rather than being dropped.
		if err := sub.SetPendingLimits(1<<20, 256<<20); err != nil {
			return err
		}
		k.subs = append(k.subs, sub)
	}
	if err := conn.Flush(); err != nil && !k.d.opt.External {
		return err
	}
	return nil
}

// close unsubscribes and returns when all received messages are handled.
func (k *inbound) close() {
	k.mu.Lock()
	subs, queues := k.subs, k.queues
	k.conn, k.subs, k.queues = nil, nil, nil
	k.mu.Unlock()
	for _, s := range subs {
		_ = s.Unsubscribe() // the connection may be gone
	}
	done := make(chan struct{})
	for _, queue := range queues {
		queue <- incoming{done: done}
	}
	for range queues {
		<-done
	}
}

// parseIncoming reads the session and the kind from the subject.
func parseIncoming(m *nats.Msg) (a incoming, ok bool) {
	a.msg = m
	switch {
	case strings.HasPrefix(m.Subject, rawPrefix):
		a.id, a.kind, ok = parseTail(m.Subject[len(rawPrefix):])
	case strings.HasPrefix(m.Subject, guestPrefix):
		a.guest = true
		a.id, a.kind, ok = parseTail(m.Subject[len(guestPrefix):])
	case strings.HasPrefix(m.Subject, "x1.audit."):
		a.kind, ok = Traffic, true
	default:
		a.id, a.kind, ok = ParseSubject(m.Subject)
	}
	return a, ok
}

// work handles the messages of one queue.
func (k *inbound) work(ctx context.Context, conn *nats.Conn, queue <-chan incoming) {
	for {
		select {
		case a := <-queue:
			k.handle(ctx, conn, &a)
		case <-ctx.Done():
			return
		}
	}
}

// handle handles one message.
func (k *inbound) handle(ctx context.Context, conn *nats.Conn, a *incoming) {
	if a.done != nil {
		a.done <- struct{}{}
		return
	}
	if err := k.d.withinLimit(a); err != nil {
		k.d.refuse(ctx, a, err)
		return
	}
	switch a.kind {
	case Events, Archive:
		k.d.ingest(ctx, conn, a)
	case Traffic:
		k.d.recordTraffic(ctx, a)
	case Input:
		k.d.input(ctx, a)
	case Delta:
		k.d.delta(ctx, a)
	case Presence:
		if a.msg.Subject != Subject(a.id, Presence) { // else the sidecar has received it
			_ = conn.PublishMsg(&nats.Msg{Subject: Subject(a.id, Presence), Data: a.msg.Data})
		}
		k.d.broadcast(a)
	case History:
		k.d.history(ctx, a, int(conn.MaxPayload())-headroom)
	default:
		k.d.refuse(ctx, a, chat.Errorf(chat.Invalid, "%q is not one of events, input, delta, presence, audit, history", string(a.kind)))
	}
}

// caller returns the sender of a message.
func (d *Dialect) caller(a *incoming) (chat.Caller, error) {
	if !a.guest {
		return d.opt.Main, nil
	}
	name, ok := bus.Publisher(a.msg.Header)
	if !ok {
		return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "the message has no verified sender")
	}
	c, err := d.keys.claims(name)
	if err != nil {
		return chat.Caller{}, err
	}
	return c.caller(), d.opt.Check(c.caller())
}

// refuse answers with an error and logs it.
func (d *Dialect) refuse(ctx context.Context, a *incoming, err error) {
	level := d.log.InfoContext
	switch {
	case chat.CodeOf(err) == chat.Internal:
		level = d.log.ErrorContext
	case a.msg != nil && a.msg.Reply != "":
		level = d.log.DebugContext // the sender gets the error
	}
	level(ctx, "message from NATS refused", "session", a.id, "kind", string(a.kind), "code", chat.CodeOf(err), "err", err)
	d.respond(a, Reply{Session: a.id, Error: problem(err)})
}

// respond answers a message that has a reply subject.
func (d *Dialect) respond(a *incoming, r any) {
	if a.msg == nil || a.msg.Reply == "" {
		return
	}
	b, err := json.Marshal(r)
	if err == nil {
		err = a.msg.Respond(b)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		d.respond(a, Reply{Session: a.id, Error: problem(chat.Errorf(chat.TooLarge, "the answer has %d bytes, which is more than one NATS message may have; ask for less", len(b)))})
		return
	}
	if err != nil {
		d.log.Debug("answer could not be sent on NATS", "err", err)
	}
}

// accepted answers with the stored event.
func (d *Dialect) accepted(a *incoming, e *chat.Event) {
	r := Reply{Session: a.id, Sequence: e.Seq, ID: e.ID}
	if a.kind == Archive {
		r.Stream, r.Seq = ArchiveStream, uint64(e.Seq)
	}
	d.respond(a, r)
}

// dropped answers that a message was not stored, which is no error.
func (d *Dialect) dropped(a *incoming, why string) {
	r := Reply{Session: a.id, Dropped: why}
	if a.kind == Archive {
		r.Stream, r.Seq = ArchiveStream, 1
	}
	d.respond(a, r)
}
