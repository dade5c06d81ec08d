package x1

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// desk takes what comes in. Messages of one session are handled in their order by
// one of a few goroutines; each takes all that waits for it at once, so that what
// is appended shares commits. A desk that is full keeps NATS waiting.
type desk struct {
	d    *Dialect
	seed maphash.Seed

	mu     sync.Mutex
	subs   []*nats.Subscription
	trays  []chan arrival
	ending <-chan struct{} // closed when nobody waits for better times any more
}

// arrival is a message that came in.
type arrival struct {
	msg   *nats.Msg
	id    chat.SessionID
	kind  Kind
	guest bool            // it came with a credential for a session
	agent bool            // it came from an old sidecar: an agent, not a person
	done  chan<- struct{} // no message, but a question: is all before it handled?
}

const (
	trayCount = 32
	traySize  = 256
	trayBatch = 256
)

func newDesk(d *Dialect) *desk { return &desk{d: d, seed: maphash.MakeSeed()} }

// open subscribes and starts the goroutines, which end when ctx does.
func (k *desk) open(ctx context.Context, conn *nats.Conn, wg *sync.WaitGroup, ending <-chan struct{}) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ending = ending
	trays := make([]chan arrival, trayCount)
	for i := range trays {
		tray := make(chan arrival, traySize)
		trays[i] = tray
		wg.Go(func() { k.work(ctx, conn, tray) })
	}
	k.subs, k.trays = nil, trays
	subjects := []string{
		rawPrefix + "*.*", guestPrefix + "*.*",
		"x1.session.*." + string(Presence), "x1.session.*." + string(Audit), "x1.session.*." + string(History), AuditAll,
	}
	if k.d.opt.External {
		subjects = append(subjects, "x1.session.*."+string(Input))
	}
	for _, subject := range subjects {
		sub, err := conn.Subscribe(subject, func(m *nats.Msg) {
			a, ok := arrive(m)
			if !ok {
				k.refuse(ctx, &a, chat.Errorf(chat.Invalid, "the subject names no session"))
				return
			}
			if name, ok := k.d.opt.Signed(m.Header); a.guest && ok && isSidecar(name) {
				a.guest, a.agent = false, true // whoever has its token serves every session
			}
			select {
			case trays[maphash.String(k.seed, string(a.id))%trayCount] <- a:
			case <-ctx.Done():
			}
		})
		if err != nil {
			return err
		}
		// What is not taken yet waits here rather than being lost.
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

// close stops taking messages and returns when all that came in were handled.
func (k *desk) close() {
	k.mu.Lock()
	subs, trays := k.subs, k.trays
	k.subs, k.trays = nil, nil
	k.mu.Unlock()
	for _, s := range subs {
		_ = s.Unsubscribe() // the connection may be gone
	}
	done := make(chan struct{})
	for _, tray := range trays {
		tray <- arrival{done: done}
	}
	for range trays {
		<-done
	}
}

// arrive reads where a message belongs.
func arrive(m *nats.Msg) (a arrival, ok bool) {
	a.msg = m
	switch {
	case strings.HasPrefix(m.Subject, rawPrefix):
		a.id, a.kind, ok = parseTail(m.Subject[len(rawPrefix):])
	case strings.HasPrefix(m.Subject, guestPrefix):
		a.guest = true
		a.id, a.kind, ok = parseTail(m.Subject[len(guestPrefix):])
	case strings.HasPrefix(m.Subject, "x1.audit."):
		a.kind, ok = Audit, true
	default:
		a.id, a.kind, ok = ParseSubject(m.Subject)
	}
	return a, ok
}

// work handles what lies in one tray.
func (k *desk) work(ctx context.Context, conn *nats.Conn, tray <-chan arrival) {
	var batch []arrival
	for {
		batch = batch[:0]
		select {
		case a := <-tray:
			batch = append(batch, a)
		case <-ctx.Done():
			return
		}
	more:
		for len(batch) < trayBatch {
			select {
			case a := <-tray:
				batch = append(batch, a)
			default:
				break more
			}
		}
		for rest := batch; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].same(&rest[0]) {
				n++
			}
			k.handle(ctx, conn, rest[:n])
			rest = rest[n:]
		}
		clear(batch)
	}
}

// same reports whether two neighbours can be handled as one.
func (a *arrival) same(b *arrival) bool {
	raw := a.kind == Events || a.kind == Archive
	return a.done == nil && b.done == nil && a.id == b.id && a.guest == b.guest && (a.kind == b.kind || raw && (b.kind == Events || b.kind == Archive))
}

// handle does neighbours of one session and kind.
func (k *desk) handle(ctx context.Context, conn *nats.Conn, run []arrival) {
	a := &run[0]
	if a.done != nil {
		a.done <- struct{}{}
		return
	}
	if run = k.d.counted(ctx, run); len(run) == 0 {
		return
	}
	switch a.kind {
	case Events, Archive:
		k.d.ingest(ctx, conn, run)
		return
	case Audit:
		k.d.audited(ctx, run)
		return
	}
	for i := range run {
		a := &run[i]
		switch a.kind {
		case Input:
			k.d.input(ctx, a)
		case Delta:
			k.d.delta(ctx, a)
		case Presence:
			if a.msg.Subject != Subject(a.id, Presence) { // else it is where it belongs already
				_ = conn.PublishMsg(&nats.Msg{Subject: Subject(a.id, Presence), Data: a.msg.Data})
			}
		case History:
			k.d.history(ctx, a, int(conn.MaxPayload())-headroom)
		default:
			k.refuse(ctx, a, chat.Errorf(chat.Invalid, "%q is none of events, input, delta, presence, audit, history", string(a.kind)))
		}
	}
}

// caller is who sent a message.
func (d *Dialect) caller(a *arrival) (chat.Caller, error) {
	if !a.guest {
		return d.opt.Main, nil
	}
	name, ok := d.opt.Signed(a.msg.Header)
	if !ok {
		return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "the message does not say who sent it")
	}
	c, err := d.keys.holder(name)
	if err != nil {
		return chat.Caller{}, err
	}
	return c.caller(), d.opt.Check(c.caller())
}

// refuse tells the sender why, and the operator that.
func (k *desk) refuse(ctx context.Context, a *arrival, err error) { k.d.refuse(ctx, a, err) }

func (d *Dialect) refuse(ctx context.Context, a *arrival, err error) {
	level := d.log.InfoContext // nobody else hears of it
	switch {
	case chat.CodeOf(err) == chat.Internal:
		level = d.log.ErrorContext
	case a.msg != nil && a.msg.Reply != "":
		level = d.log.DebugContext
	}
	level(ctx, "a message from NATS was refused", "session", a.id, "kind", string(a.kind), "code", chat.CodeOf(err), "err", err)
	d.respond(a, Reply{Session: a.id, Error: problem(err)})
}

// respond answers a message that wants an answer.
func (d *Dialect) respond(a *arrival, r any) {
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
		d.log.Debug("an answer could not be sent on NATS", "err", err)
	}
}

// accepted answers with the fact that a message became.
func (d *Dialect) accepted(a *arrival, e *chat.Event) {
	r := Reply{Session: a.id, Sequence: e.Seq, ID: e.ID}
	if a.kind == Archive {
		r.Stream, r.Seq = ArchiveStream, uint64(e.Seq)
	}
	d.respond(a, r)
}

// dropped answers that a message became no fact, rightly.
func (d *Dialect) dropped(a *arrival, why string) {
	r := Reply{Session: a.id, Dropped: why}
	if a.kind == Archive {
		r.Stream, r.Seq = ArchiveStream, 1
	}
	d.respond(a, r)
}
