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
}

// maxPlaces bounds the places that are remembered for one identity and
// conversation: as many tabs can come back.
const maxPlaces = 8

// desk remembers, per identity and conversation, who follows it and where
// clients that are gone stood. The protocol has no cursor, so this is the only
// way to go on where a client stopped.
type desk struct {
	marks *marks

	mu    sync.Mutex
	homes map[string]*home
	next  uint64
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
	parted       bool   // the client took its leave; else its connection broke
}

func newDesk(m *marks) *desk {
	d := &desk{marks: m, homes: map[string]*home{}}
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

// rejoin adds a client that comes back, and returns where it stood. An old
// connection that does not answer is ended first; while one lives, the client is
// a second tab, and has no place yet.
func (d *desk) rejoin(ctx context.Context, key string, t *thread) (at place, ok bool) {
	d.dismiss(key, t.s)
	var last leftover
	d.mu.Lock()
	h := d.home(key)
	if n := len(h.left); n > 0 && len(h.live) == 0 && ctx.Err() == nil {
		last, ok = h.left[n-1], true
		h.left = h.left[:n-1]
	}
	d.enter(key, h, t)
	d.mu.Unlock()
	if ok {
		// The new place is noted before the old one is forgotten: a kill in
		// between must not lose both.
		d.marks.note(key, t.no, last.place)
		d.marks.drop(key, last.no)
	}
	return last.place, ok
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
func (d *desk) leave(t *thread, at place, parted bool) {
	d.marks.note(t.key, t.no, at)
	var gone []leftover
	d.mu.Lock()
	h := d.home(t.key)
	h.live = slices.DeleteFunc(h.live, func(o *thread) bool { return o == t })
	h.left = append(h.left, leftover{no: t.no, place: at, when: d.marks.now(), conversation: t.voice.conversation, parted: parted})
	if n := len(h.left) - maxPlaces; n > 0 {
		gone, h.left = h.left[:n], slices.Clone(h.left[n:])
	}
	d.mu.Unlock()
	for _, l := range gone {
		d.marks.drop(t.key, l.no)
	}
}

// note keeps what was sent, for the case that the process is killed.
func (d *desk) note(t *thread, at place) { d.marks.note(t.key, t.no, at) }

// begin finds where the thread starts.
func (t *thread) begin(ctx context.Context) (chat.Start, error) {
	at, known, err := t.enter(ctx)
	if err != nil {
		return chat.Start{}, err
	}
	st, err := t.s.d.opt.Sessions.State(ctx, t.caller, t.session)
	if err != nil {
		t.s.d.desk.leave(t, at, false)
		return chat.Start{}, err
	}
	line := st.Line("")
	if !known || at.Cursor.Seq > st.Last {
		// Nothing is known of this client: it gets what is under way.
		at = place{Cursor: chat.Cursor{Seq: st.Last}, Base: st.Last + 1}
		if line.Turn != nil {
			at = place{Cursor: chat.Cursor{Seq: line.Turn.Trigger - 1}, Base: line.Turn.Trigger}
		}
	}
	at = t.fix(at)
	base := min(at.Base, at.Cursor.Seq+1)
	if line.Turn != nil {
		base = min(base, line.Turn.Trigger)
	}
	for _, seq := range line.Queue {
		base = min(base, seq)
	}
	for _, p := range st.Prompts {
		base = min(base, p.Seq) // open ones are shown again
	}
	t.feed = newFeed(t.session, at.Cursor)
	t.feed.replay, t.feed.blocks = st.Last, t.s.words.bubbles
	if line.Turn != nil {
		t.feed.running = line.Turn.ID
	}
	t.older, t.written, t.arrive = at, at, at
	t.s.d.desk.note(t, at)
	return chat.Start{Cursor: &chat.Cursor{Seq: max(base, 1) - 1}}, nil
}

// enter finds the session and where the client stands in it.
func (t *thread) enter(ctx context.Context) (at place, known bool, err error) {
	for t.session == "" {
		sess, err := t.s.d.opt.Sessions.Get(ctx, t.caller, chat.SessionID(t.voice.conversation))
		if err == nil {
			t.session = sess.ID
			at, known = t.s.d.desk.rejoin(ctx, t.deskKey(), t)
			return at, known, nil
		}
		if chat.CodeOf(err) != chat.NotFound {
			return at, false, err
		}
		// It will begin with a message, perhaps.
		select {
		case <-t.spoken:
			t.session = t.first.Session
		case <-t.poke:
		case <-ctx.Done():
			return at, false, context.Cause(ctx)
		}
	}
	select {
	case <-t.spoken:
		at = place{Cursor: chat.Cursor{Seq: t.first.Seq - 1}, Base: t.first.Seq}
	case <-ctx.Done():
		return at, false, context.Cause(ctx)
	}
	t.s.d.desk.join(t.deskKey(), t)
	return at, true, nil
}

// deskKey binds a place to who the client is: the identity, the browser, and the
// session.
func (t *thread) deskKey() string { return t.s.deskKey(t.caller, t.session) }

func (s *socket) deskKey(c chat.Caller, id chat.SessionID) string {
	return uid(c.In()+"\x00"+c.Actor.Key()+"\x00"+s.browser, string(id))
}
