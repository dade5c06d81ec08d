package nemo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// place is where a client stands in a session.
type place struct {
	Cursor chat.Cursor
	Base   chat.Seq // the oldest event that must be read again to go on from there
	Held   chat.Seq // notifications from this one on were not shown yet; 0 for none
	Shown  chat.Seq // the prompt in the client's window; 0 for none
}

func (p place) same(o place) bool {
	return p.Cursor.Seq == o.Cursor.Seq && p.Base == o.Base && p.Held == o.Held && p.Shown == o.Shown && slices.Equal(p.Cursor.Blocks, o.Cursor.Blocks)
}

// before reports whether a client that stands here lacks what another has.
func (p place) before(o place) bool {
	if p.Cursor.Seq != o.Cursor.Seq {
		return p.Cursor.Seq < o.Cursor.Seq
	}
	return p.bytes() < o.bytes()
}

// bytes is how much of texts that are not finished the client has.
func (p place) bytes() (n int) {
	for _, b := range p.Cursor.Blocks {
		n += b.Bytes
	}
	return n
}

// maxPlaces bounds the places that are remembered for one identity and
// conversation: as many tabs can come back.
const maxPlaces = 8

// desk remembers, per identity and conversation, who follows it and where
// clients that are gone stood. The protocol has no cursor, so this is the only
// way to go on where a client stopped.
type desk struct {
	marks *marks

	mu     sync.Mutex
	homes  map[string]*home
	hoping map[threadKey][]*thread // they follow conversations that have not begun
	next   uint64
}

// home is one conversation of one identity.
type home struct {
	live []*thread
	left []leftover // oldest first
}

// leftover is the place of a client that is gone.
type leftover struct {
	no uint64
	place
	when         time.Time
	conversation string // the client's own name for it; "" when only the file knows of it
	how          departure
}

func newDesk(m *marks) *desk {
	d := &desk{marks: m, homes: map[string]*home{}, hoping: map[threadKey][]*thread{}}
	for key, list := range m.load() {
		d.homes[key] = &home{left: list}
		for _, l := range list {
			d.next = max(d.next, l.no)
		}
	}
	return d
}

// join adds a client that begins with a message of its own. What others left
// behind before is of no use any more.
func (d *desk) join(key string, t *thread) {
	d.mu.Lock()
	h := d.home(key)
	gone := h.left
	h.left = nil
	d.enter(key, h, t)
	d.mu.Unlock()
	for _, l := range gone {
		d.marks.drop(key, l.no)
	}
}

// arrive adds a client that was there before the conversation began.
func (d *desk) arrive(key string, t *thread) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enter(key, d.home(key), t)
}

// rejoin adds a client that comes back, and returns where it stood. An old
// connection that does not answer is ended first. While others live and nobody
// is awaited, the client is one more tab, and has no place yet.
func (d *desk) rejoin(ctx context.Context, key string, t *thread) (at place, ok bool) {
	d.dismiss(key, t.s)
	var last leftover
	d.mu.Lock()
	h := d.home(key)
	if ctx.Err() == nil {
		last, ok = h.claim(d.marks.now())
	}
	d.enter(key, h, t)
	d.mu.Unlock()
	if ok {
		// The new place is noted before the old one is forgotten: a kill in
		// between must not lose both.
		d.marks.note(key, t.no, last.place, following)
		d.marks.drop(key, last.no)
	}
	return last.place, ok
}

// How long a client is awaited that others of the same conversation have
// outlived: one whose connection broke, and one that took its leave, as a page
// does that is loaded again.
const (
	returning = time.Minute
	reloading = 15 * time.Second
)

// awaited is the place that was left last, if its client may come back.
func (h *home) awaited(now time.Time) (l leftover, ok bool) {
	if len(h.left) == 0 {
		return l, false
	}
	l = h.left[len(h.left)-1]
	return l, len(h.live) == 0 || now.Sub(l.when) <= l.patience()
}

func (l *leftover) patience() time.Duration {
	if l.how == cutOff {
		return returning
	}
	return reloading
}

// together is how near in time connections end that one cause ends.
const together = 5 * time.Second

// claim takes the place of the client that is awaited. Tabs cannot be told
// apart: those that were cut off together all go on where the one stood that had
// least, so that none of them lacks anything.
func (h *home) claim(now time.Time) (leftover, bool) {
	last, ok := h.awaited(now)
	if !ok {
		return last, false
	}
	least, most := len(h.left)-1, len(h.left)-1
	for i, l := range h.left {
		if last.when.Sub(l.when) > together {
			continue
		}
		if l.before(h.left[least].place) {
			least = i
		}
		if h.left[most].before(l.place) {
			most = i
		}
	}
	got := h.left[most]
	got.place = h.left[least].place
	h.left = slices.Delete(h.left, most, most+1)
	return got, true
}

func (d *desk) home(key string) *home {
	h := d.homes[key]
	if h == nil {
		d.prune()
		h = &home{}
		d.homes[key] = h
	}
	return h
}

// maxHomes bounds the conversations that are remembered.
const maxHomes = 20_000

// prune makes room by forgetting conversations that nobody follows.
func (d *desk) prune() {
	if len(d.homes) < maxHomes {
		return
	}
	for key, h := range d.homes {
		if len(h.live) == 0 {
			delete(d.homes, key) // what the file knows of it grows old there
		}
		if len(d.homes) < maxHomes*9/10 {
			return
		}
	}
}

func (d *desk) enter(key string, h *home, t *thread) {
	d.next++
	t.key, t.no = key, d.next
	h.live = append(h.live, t)
}

// leave remembers where a client stood whose connection has ended.
func (d *desk) leave(t *thread, at place, how departure) {
	d.marks.note(t.key, t.no, at, how)
	var gone []leftover
	d.mu.Lock()
	h := d.home(t.key)
	h.live = slices.DeleteFunc(h.live, func(o *thread) bool { return o == t })
	h.left = append(h.left, leftover{no: t.no, place: at, when: d.marks.now(), conversation: t.voice.conversation, how: how})
	if n := len(h.left) - maxPlaces; n > 0 {
		gone, h.left = h.left[:n], slices.Clone(h.left[n:])
	}
	// The next place stands in for those that are forgotten: tabs that were cut off
	// together go on where the one stood that had least, also if it is among them.
	for _, l := range gone {
		if next := &h.left[0]; next.when.Sub(l.when) <= together && l.before(next.place) {
			next.place = l.place
			d.marks.note(t.key, next.no, next.place, next.how) // under the lock: nobody may have claimed it
		}
	}
	d.mu.Unlock()
	for _, l := range gone {
		d.marks.drop(t.key, l.no)
	}
}

// note keeps where a client stands, for the case that the process is killed.
func (d *desk) note(t *thread, at place) { d.marks.note(t.key, t.no, at, following) }

// hope has the thread woken when its conversation begins; the function ends that.
func (d *desk) hope(t *thread) (done func()) {
	key := keyOf(t.caller, t.voice.conversation)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hoping[key] = append(d.hoping[key], t)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.hoping[key] = slices.DeleteFunc(d.hoping[key], func(o *thread) bool { return o == t })
		if len(d.hoping[key]) == 0 {
			delete(d.hoping, key)
		}
	}
}

// begun wakes those who hope for a conversation.
func (d *desk) begun(c chat.Caller, conversation string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.hoping[keyOf(c, conversation)] {
		t.wake()
	}
}
