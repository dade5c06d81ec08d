package nemo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// position is where a client stands in a session.
type position struct {
	Cursor chat.Cursor
	Base   chat.Seq // the oldest event that must be read again to go on from there
	Held   chat.Seq // notifications from this one on were not shown yet; 0 for none
	Shown  chat.Seq // the prompt in the client's window; 0 for none
}

func (p position) equal(o position) bool {
	return p.Cursor.Seq == o.Cursor.Seq && p.Base == o.Base && p.Held == o.Held && p.Shown == o.Shown && slices.Equal(p.Cursor.Blocks, o.Cursor.Blocks)
}

// before reports whether a client that stands here lacks what another has.
func (p position) before(o position) bool {
	if p.Cursor.Seq != o.Cursor.Seq {
		return p.Cursor.Seq < o.Cursor.Seq
	}
	return p.blockBytes() < o.blockBytes()
}

// blockBytes is how much of texts that are not finished the client has.
func (p position) blockBytes() (n int) {
	for _, b := range p.Cursor.Blocks {
		n += b.Bytes
	}
	return n
}

// maxDeparted bounds the places that are remembered for one identity and
// conversation: as many tabs can come back.
const maxDeparted = 8

// resumePoints remembers, per identity and conversation, who follows it and where
// clients that are gone stood. The protocol has no cursor, so this is the only
// way to go on where a client stopped.
type resumePoints struct {
	file *pointFile

	mu              sync.Mutex
	byKey           map[string]*clients
	waitingForStart map[subscriptionKey][]*subscription // they follow conversations that have not begun
	lastID          uint64
}

// clients is one conversation of one identity.
type clients struct {
	live     []*subscription
	departed []departed // oldest first
}

// departed is the place of a client that is gone.
type departed struct {
	id uint64
	position
	when         time.Time
	conversation string // the client's own name for it; "" when only the file knows of it
	reason       reason
}

func newResumePoints(m *pointFile) *resumePoints {
	d := &resumePoints{file: m, byKey: map[string]*clients{}, waitingForStart: map[subscriptionKey][]*subscription{}}
	for key, list := range m.load() {
		d.byKey[key] = &clients{departed: list}
		for _, l := range list {
			d.lastID = max(d.lastID, l.id)
		}
	}
	return d
}

// addSender adds a client that begins with a message of its own. What others left
// behind before is of no use any more.
func (d *resumePoints) addSender(key string, t *subscription) {
	d.mu.Lock()
	h := d.clientsOf(key)
	gone := h.departed
	h.departed = nil
	d.attach(key, h, t)
	d.mu.Unlock()
	for _, l := range gone {
		d.file.remove(key, l.id)
	}
}

// add adds a client that was there before the conversation began.
func (d *resumePoints) add(key string, t *subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attach(key, d.clientsOf(key), t)
}

// resume adds a client that comes back, and returns where it stood. An old
// connection that does not answer is ended first. While others live and nobody
// is awaited, the client is one more tab, and has no place yet.
func (d *resumePoints) resume(ctx context.Context, key string, t *subscription) (at position, ok bool) {
	d.closeStale(key, t.s)
	var last departed
	d.mu.Lock()
	h := d.clientsOf(key)
	if ctx.Err() == nil {
		last, ok = h.takeOver(d.file.now())
	}
	d.attach(key, h, t)
	d.mu.Unlock()
	if ok {
		// The new place is noted before the old one is forgotten: a kill in
		// between must not lose both.
		d.file.save(key, t.id, last.position, stillConnected)
		d.file.remove(key, last.id)
	}
	return last.position, ok
}

// How long a client is awaited that others of the same conversation have
// outlived: one whose connection broke, and one that took its leave, as a page
// does that is loaded again.
const (
	reconnectWindow = time.Minute
	reloadWindow    = 15 * time.Second
)

// lastDeparted is the place that was left last, if its client may come back.
func (h *clients) lastDeparted(now time.Time) (l departed, ok bool) {
	if len(h.departed) == 0 {
		return l, false
	}
	l = h.departed[len(h.departed)-1]
	return l, len(h.live) == 0 || now.Sub(l.when) <= l.returnWindow()
}

func (l *departed) returnWindow() time.Duration {
	if l.reason == connectionLost {
		return reconnectWindow
	}
	return reloadWindow
}

// sameOutage is how near in time connections end that one cause ends.
const sameOutage = 5 * time.Second

// takeOver takes the place of the client that is awaited. Tabs cannot be told
// apart: those that were cut off together all go on where the one stood that had
// least, so that none of them lacks anything.
func (h *clients) takeOver(now time.Time) (departed, bool) {
	last, ok := h.lastDeparted(now)
	if !ok {
		return last, false
	}
	least, most := len(h.departed)-1, len(h.departed)-1
	for i, l := range h.departed {
		if last.when.Sub(l.when) > sameOutage {
			continue
		}
		if l.before(h.departed[least].position) {
			least = i
		}
		if h.departed[most].before(l.position) {
			most = i
		}
	}
	got := h.departed[most]
	got.position = h.departed[least].position
	h.departed = slices.Delete(h.departed, most, most+1)
	return got, true
}

func (d *resumePoints) clientsOf(key string) *clients {
	h := d.byKey[key]
	if h == nil {
		d.prune()
		h = &clients{}
		d.byKey[key] = h
	}
	return h
}

// maxConversations bounds the conversations that are remembered.
const maxConversations = 20_000

// prune makes room by forgetting conversations that nobody follows.
func (d *resumePoints) prune() {
	if len(d.byKey) < maxConversations {
		return
	}
	for key, h := range d.byKey {
		if len(h.live) == 0 {
			delete(d.byKey, key) // what the file knows of it grows old there
		}
		if len(d.byKey) < maxConversations*9/10 {
			return
		}
	}
}

func (d *resumePoints) attach(key string, h *clients, t *subscription) {
	d.lastID++
	t.key, t.id = key, d.lastID
	h.live = append(h.live, t)
}

// depart remembers where a client stood whose connection has ended.
func (d *resumePoints) depart(t *subscription, at position, how reason) {
	d.file.save(t.key, t.id, at, how)
	var gone []departed
	d.mu.Lock()
	h := d.clientsOf(t.key)
	h.live = slices.DeleteFunc(h.live, func(o *subscription) bool { return o == t })
	h.departed = append(h.departed, departed{id: t.id, position: at, when: d.file.now(), conversation: t.enc.conversation, reason: how})
	if n := len(h.departed) - maxDeparted; n > 0 {
		gone, h.departed = h.departed[:n], slices.Clone(h.departed[n:])
	}
	// The next place stands in for those that are forgotten: tabs that were cut off
	// together go on where the one stood that had least, also if it is among them.
	for _, l := range gone {
		if next := &h.departed[0]; next.when.Sub(l.when) <= sameOutage && l.before(next.position) {
			next.position = l.position
			d.file.save(t.key, next.id, next.position, next.reason) // under the lock: nobody may have claimed it
		}
	}
	d.mu.Unlock()
	for _, l := range gone {
		d.file.remove(t.key, l.id)
	}
}

// save keeps where a client stands, for the case that the process is killed.
func (d *resumePoints) save(t *subscription, at position) {
	d.file.save(t.key, t.id, at, stillConnected)
}

// waitForStart has the thread woken when its conversation begins; the function ends that.
func (d *resumePoints) waitForStart(t *subscription) (done func()) {
	key := subscriptionKeyOf(t.caller, t.enc.conversation)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waitingForStart[key] = append(d.waitingForStart[key], t)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waitingForStart[key] = slices.DeleteFunc(d.waitingForStart[key], func(o *subscription) bool { return o == t })
		if len(d.waitingForStart[key]) == 0 {
			delete(d.waitingForStart, key)
		}
	}
}

// started wakes those who hope for a conversation.
func (d *resumePoints) started(c chat.Caller, conversation string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.waitingForStart[subscriptionKeyOf(c, conversation)] {
		t.wake()
	}
}
