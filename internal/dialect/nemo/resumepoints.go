package nemo

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// position is how far a client has read a session.
type position struct {
	Cursor chat.Cursor
	Base   chat.Seq // the oldest event that must be folded again to continue from there
	Held   chat.Seq // notifications from this one on were not shown yet; 0 for none
	Shown  chat.Seq // the prompt that the client shows; 0 for none
}

func (p position) equal(o position) bool {
	return p.Cursor.Seq == o.Cursor.Seq && p.Base == o.Base && p.Held == o.Held && p.Shown == o.Shown && slices.Equal(p.Cursor.Blocks, o.Cursor.Blocks)
}

// before reports whether p has less than o: fewer events, or less of open blocks.
func (p position) before(o position) bool {
	if p.Cursor.Seq != o.Cursor.Seq {
		return p.Cursor.Seq < o.Cursor.Seq
	}
	return p.blockBytes() < o.blockBytes()
}

func (p position) blockBytes() (n int) {
	for _, b := range p.Cursor.Blocks {
		n += b.Bytes
	}
	return n
}

// justBefore is the position right before an event.
func justBefore(seq chat.Seq) position {
	return position{Cursor: chat.Cursor{Seq: seq - 1}, Base: seq}
}

// clientState is what a resume point says about its client; the values are in the file.
type clientState string

// The states.
const (
	connected      clientState = "live"
	connectionLost clientState = "left"
	pageUnloaded   clientState = "parted" // the page was closed, or is being reloaded
	clientClosed   clientState = "turned" // the client closed the connection itself
	removed        clientState = "-"
)

// resumePoint is the position of one client in one session. Those of departed clients wait for the client to return.
type resumePoint struct {
	savedPoint
	conversation string        // the client's own name of the session; "" after a restart
	sub          *subscription // nil when the client has departed
}

// clients are the resume points of one identity and browser in one session.
type clients struct {
	live     []*resumePoint
	departed []*resumePoint // oldest first
}

// Limits of what is remembered.
const (
	maxConversations = 20_000
	maxDeparted      = 8 // per conversation: that many tabs can return
	pointLifetime    = 24 * time.Hour
)

// resumePoints records who follows each conversation, and how far departed clients have read. NeMo's protocol has no
// cursor, so this is the only way to continue where a client stopped.
type resumePoints struct {
	now func() time.Time

	mu              sync.Mutex
	file            *pointFile
	byKey           map[string]*clients
	waitingForStart map[subscriptionKey][]*subscription // of conversations that do not exist yet
	lastID          uint64
}

func newResumePoints(dir string, now func() time.Time, log *slog.Logger) *resumePoints {
	r := &resumePoints{now: now, byKey: map[string]*clients{}, waitingForStart: map[subscriptionKey][]*subscription{}}
	file, saved := openPointFile(dir, log)
	for _, p := range saved {
		if p.state == connected {
			p.state, p.when = connectionLost, now() // by the end of that process
		}
		h := r.clientsOf(p.key)
		h.departed = slices.DeleteFunc(h.departed, func(o *resumePoint) bool { return o.id == p.id })
		if p.state != removed && now().Sub(p.when) < pointLifetime {
			h.departed = append(h.departed, &resumePoint{savedPoint: p})
		}
		r.lastID = max(r.lastID, p.id)
	}
	for _, h := range r.byKey {
		slices.SortFunc(h.departed, func(a, b *resumePoint) int { return cmp.Compare(a.id, b.id) })
	}
	if r.file = file; file.path != "" {
		if err := file.rewrite(r.all()); err != nil {
			file.fail(err)
		}
	}
	return r
}

// all yields the points that are not too old.
func (r *resumePoints) all() iter.Seq[savedPoint] {
	return func(yield func(savedPoint) bool) {
		for _, h := range r.byKey {
			for _, list := range [][]*resumePoint{h.live, h.departed} {
				for _, p := range list {
					if r.now().Sub(p.when) < pointLifetime && !yield(p.savedPoint) {
						return
					}
				}
			}
		}
	}
}

// set changes a point; the caller holds mu.
func (r *resumePoints) set(p *resumePoint, at position, state clientState) {
	p.at, p.state, p.when = at, state, r.now()
	r.file.append(p.savedPoint, r.all())
}

// add adds a client that has nothing of the conversation yet.
func (r *resumePoints) add(key string, sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attach(key, sub)
}

// addSender adds a client that starts with a message of its own. The points of departed clients are removed: a
// client that connects later starts with the running turn.
func (r *resumePoints) addSender(key string, sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.clientsOf(key)
	for _, p := range h.departed {
		r.set(p, p.at, removed)
	}
	h.departed = nil
	r.attach(key, sub)
}

// resume adds a client that returns, and gives it the position of a departed one. Connections that do not answer are
// closed first. While others are connected and none departed lately, the client is a new tab and has no position.
func (r *resumePoints) resume(ctx context.Context, key string, sub *subscription) (at position, ok bool) {
	r.closeStale(key, sub.s)
	r.mu.Lock()
	defer r.mu.Unlock()
	var old *resumePoint
	if ctx.Err() == nil {
		old, at = r.clientsOf(key).takeOver(r.now())
	}
	r.attach(key, sub)
	if old == nil {
		return at, false
	}
	r.set(sub.point, at, connected) // before the old point is removed: a kill in between must not lose both
	r.set(old, at, removed)
	return at, true
}

// attach adds a client; the caller holds mu.
func (r *resumePoints) attach(key string, sub *subscription) {
	h := r.clientsOf(key)
	r.lastID++
	sub.point = &resumePoint{savedPoint: savedPoint{key: key, id: r.lastID, when: r.now(), state: connected}, conversation: sub.enc.conversation, sub: sub}
	h.live = append(h.live, sub.point)
}

// save records how far a connected client has read.
func (r *resumePoints) save(sub *subscription, at position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(sub.point, at, connected)
}

// sameOutage is how close in time connections end that one cause ends.
const sameOutage = 5 * time.Second

// depart records where a client stopped whose connection has ended.
func (r *resumePoints) depart(sub *subscription, at position, state clientState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, h := sub.point, r.clientsOf(sub.point.key)
	r.set(p, at, state)
	p.sub = nil
	h.live = slices.DeleteFunc(h.live, func(o *resumePoint) bool { return o == p })
	h.departed = append(h.departed, p)
	for len(h.departed) > maxDeparted {
		oldest, next := h.departed[0], h.departed[1]
		h.departed = h.departed[1:]
		// Tabs of one outage all continue from the lowest position among them; the next point replaces the removed one.
		if next.when.Sub(oldest.when) <= sameOutage && oldest.at.before(next.at) {
			next.at = oldest.at
			r.file.append(next.savedPoint, r.all())
		}
		r.set(oldest, oldest.at, removed)
	}
}

// How long a client can return while others of its conversation are connected: after its connection broke, and after it
// closed, as a page does that is reloaded.
const (
	reconnectWindow = time.Minute
	reloadWindow    = 15 * time.Second
)

func (p *resumePoint) returnWindow() time.Duration {
	if p.state == connectionLost {
		return reconnectWindow
	}
	return reloadWindow
}

// lastDeparted returns the client that departed last if it may still return, else nil.
func (h *clients) lastDeparted(now time.Time) *resumePoint {
	if len(h.departed) == 0 {
		return nil
	}
	last := h.departed[len(h.departed)-1]
	if len(h.live) > 0 && now.Sub(last.when) > last.returnWindow() {
		return nil
	}
	return last
}

// takeOver takes the point of a client that may return, nil when there is none. Tabs cannot be told apart, so those that
// one outage disconnected all continue from the lowest position among them, and none of them misses anything.
func (h *clients) takeOver(now time.Time) (*resumePoint, position) {
	last := h.lastDeparted(now)
	if last == nil {
		return nil, position{}
	}
	highest, at := last, last.at
	for _, p := range h.departed {
		if last.when.Sub(p.when) > sameOutage {
			continue
		}
		if p.at.before(at) {
			at = p.at
		}
		if highest.at.before(p.at) {
			highest = p
		}
	}
	h.departed = slices.DeleteFunc(h.departed, func(p *resumePoint) bool { return p == highest })
	return highest, at
}

// clientsOf returns the clients of a conversation. To make room it forgets conversations without a connected client.
func (r *resumePoints) clientsOf(key string) *clients {
	h := r.byKey[key]
	if h != nil {
		return h
	}
	if len(r.byKey) >= maxConversations {
		for old, h := range r.byKey {
			if len(h.live) == 0 {
				delete(r.byKey, old)
			}
			if len(r.byKey) < maxConversations*9/10 {
				break
			}
		}
	}
	h = &clients{}
	r.byKey[key] = h
	return h
}

// closeStale closes the connections of a conversation that do not answer a ping, other than s.
func (r *resumePoints) closeStale(key string, s *socket) {
	r.mu.Lock()
	var others []*socket
	if h := r.byKey[key]; h != nil {
		for _, p := range h.live {
			if p.sub.s != s {
				others = append(others, p.sub.s)
			}
		}
	}
	r.mu.Unlock()
	var wait sync.WaitGroup
	for _, o := range others {
		wait.Go(func() {
			if !o.respondsToPing(s.d.opt.Gone) {
				o.closeReplaced(s.d.opt.Gone)
			}
		})
	}
	wait.Wait()
}

// lostConversation is the client's name of a conversation that its connection lost a moment ago, and that it has not
// returned to; "" when there is none.
func (r *resumePoints) lostConversation(key string, sess chat.Session) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.byKey[key]
	if h == nil {
		return ""
	}
	last := h.lastDeparted(r.now())
	switch {
	case last == nil || last.state == clientClosed || r.now().Sub(last.when) > last.returnWindow():
		return ""
	case last.conversation != "":
		return last.conversation
	case strings.HasPrefix(string(sess.ID), "s-"):
		return "" // the server made this id: the client has another name for it, which was lost in the restart
	}
	return string(sess.ID)
}

// waitForStart wakes the subscription when its conversation starts, until stop is called.
func (r *resumePoints) waitForStart(sub *subscription) (stop func()) {
	key := subscriptionKeyOf(sub.caller, sub.enc.conversation)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waitingForStart[key] = append(r.waitingForStart[key], sub)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waitingForStart[key] = slices.DeleteFunc(r.waitingForStart[key], func(o *subscription) bool { return o == sub })
		if len(r.waitingForStart[key]) == 0 {
			delete(r.waitingForStart, key)
		}
	}
}

// started wakes the subscriptions that wait for a conversation.
func (r *resumePoints) started(c chat.Caller, conversation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sub := range r.waitingForStart[subscriptionKeyOf(c, conversation)] {
		sub.wake()
	}
}
