package x1

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// inbound receives messages. Those of one queue are handled in order. Queues do not wait for each other: in a cluster a session may have no
// owner for some seconds. When too much waits here, more waits at NATS.
type inbound struct {
	d    *Dialect
	pool *wire.StackPool

	opened chan struct{} // closed by open

	mu       sync.Mutex
	conn     *nats.Conn // nil until open, and after close
	subs     []*nats.Subscription
	ending   <-chan struct{} // closed when retry gives up
	queues   map[queue]waiting
	messages int // received and not handled
	bytes    int
	handled  sync.Cond // a message was handled
	limit    int       // messages that wait here

	closeTime time.Duration // how long close may store messages

	reads chan struct{} // has an element for each history that is being read
}

// queue names the messages that are handled in order.
type queue struct {
	id   chat.SessionID
	kind Kind // Events for all that is written to the session
}

// waiting are the messages of a queue.
type waiting struct {
	all   []*incoming
	bytes int // also of the one that is being handled
}

// incoming is a received message.
type incoming struct {
	msg   *nats.Msg
	at    time.Time // when it was received
	id    chat.SessionID
	kind  Kind
	guest bool // sent with a credential for one session
	agent bool // sent by an x1 sidecar: an agent, not a person
}

const (
	maxWaiting      = 64 << 10 // messages that wait here, and one more of each subscription
	maxWaitingBytes = 256 << 20
	guestShare      = 8  // a queue of guests may use an eighth of the room that is left
	maxReads        = 32 // histories that are read at the same time: each takes some hundred KB
	closeTime       = 5 * time.Second
)

func newInbound(d *Dialect) *inbound {
	k := &inbound{
		d: d, pool: wire.NewStackPool(), opened: make(chan struct{}), queues: map[queue]waiting{}, limit: maxWaiting, closeTime: closeTime,
		reads: make(chan struct{}, maxReads),
	}
	k.handled.L = &k.mu
	return k
}

// open subscribes. Messages are handled with ctx.
func (k *inbound) open(ctx context.Context, conn *nats.Conn, ending <-chan struct{}) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(k.opened)
	k.conn, k.subs, k.ending = conn, nil, ending
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
			k.add(ctx, conn, &a)
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

// receives reports whether messages are received. It waits for open until ctx ends.
func (k *inbound) receives(ctx context.Context) bool {
	select {
	case <-k.opened:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conn != nil
}

// close unsubscribes and returns when all received messages are handled.
func (k *inbound) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.subs {
		_ = s.Unsubscribe() // the connection may be gone
	}
	k.conn, k.subs = nil, nil
	for k.messages > 0 {
		k.handled.Wait()
	}
}

// add puts a message into its queue. It returns when fewer wait than the limit, so that the next ones wait at NATS. A guest with
// many messages for a session that stores them slowly would fill the room of all sessions, so messages beyond guestShare are refused.
func (k *inbound) add(ctx context.Context, conn *nats.Conn, a *incoming) {
	if !k.enqueue(ctx, conn, a) {
		k.d.refuse(ctx, a, chat.Errorf(chat.SlowDown, "too many messages of this session wait; send it again in a moment"))
	}
}

func (k *inbound) enqueue(ctx context.Context, conn *nats.Conn, a *incoming) (ok bool) {
	q := queue{a.id, a.kind}
	switch a.kind {
	case Archive, Input, Delta:
		q.kind = Events
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return true
	}
	w, working := k.queues[q]
	if a.guest && (len(w.all) > (k.limit-k.messages)/guestShare || w.bytes > (maxWaitingBytes-k.bytes)/guestShare) {
		return false
	}
	w.all, w.bytes = append(w.all, a), w.bytes+len(a.msg.Data)
	k.queues[q] = w
	k.messages++
	k.bytes += len(a.msg.Data)
	if !working {
		k.pool.Go(func() { k.work(ctx, conn, q) })
	}
	for k.messages > k.limit || k.bytes > maxWaitingBytes {
		k.handled.Wait()
	}
	return true
}

// work handles the messages of a queue until it is empty.
func (k *inbound) work(ctx context.Context, conn *nats.Conn, q queue) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.queues[q].all) > 0 {
		w := k.queues[q]
		a := w.all[0]
		w.all[0] = nil // so that it is freed
		w.all = w.all[1:]
		k.queues[q] = w
		k.mu.Unlock()
		k.handle(ctx, conn, a)
		k.mu.Lock()
		w = k.queues[q]
		w.bytes -= len(a.msg.Data)
		k.queues[q] = w
		k.messages--
		k.bytes -= len(a.msg.Data)
		k.handled.Broadcast()
	}
	delete(k.queues, q)
}

// parseIncoming reads the session and the kind from the subject.
func parseIncoming(m *nats.Msg) (a incoming, ok bool) {
	a.msg, a.at = m, time.Now()
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

// handle handles one message.
func (k *inbound) handle(ctx context.Context, conn *nats.Conn, a *incoming) {
	if ctx.Err() != nil {
		k.d.refuse(ctx, a, chat.Errorf(chat.Unavailable, "the server is shutting down; send it again"))
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
	case a.msg.Reply != "":
		level = d.log.DebugContext // the sender gets the error
	}
	level(ctx, "message from NATS refused", "session", a.id, "kind", string(a.kind), "code", chat.CodeOf(err), "err", err)
	d.respond(a, Reply{Session: a.id, Error: problem(err)})
}

// respond answers a message that has a reply subject.
func (d *Dialect) respond(a *incoming, r any) {
	if a.msg.Reply == "" {
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
