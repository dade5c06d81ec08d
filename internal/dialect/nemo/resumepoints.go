package nemo

import (
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

// lower is the position up to which a client at p and one at o have read.
func (p position) lower(o position) position {
	if o.Cursor.Seq < p.Cursor.Seq {
		p, o = o, p
	}
	at := position{Cursor: chat.Cursor{Seq: p.Cursor.Seq}, Base: min(p.Base, o.Base), Held: min(p.Held, o.Held)}
	for _, m := range p.Cursor.Blocks {
		n := o.Cursor.Bytes(m.Block)
		if n == 0 && o.Base > p.Cursor.Seq {
			n = m.Bytes // o has the end of the turn, so all of the block; else it may have finished the block or not begun it
		}
		if n > 0 {
			at.Cursor.PassPiece(m.Block, min(n, m.Bytes))
		}
	}
	if at.Held == 0 {
		at.Held = max(p.Held, o.Held)
	}
	if p.Shown == o.Shown {
		at.Shown = p.Shown
	}
	return at
}

// justBefore is the position right before an event.
func justBefore(seq chat.Seq) position {
	return position{Cursor: chat.Cursor{Seq: seq - 1}, Base: seq}
}

// clientState is what a resume point says about its clients; the values are in the file.
type clientState string

// The states.
const (
	connected      clientState = "connected"
	connectionLost clientState = "lost"
	pageUnloaded   clientState = "unloaded" // the page was closed, or is being reloaded
	clientClosed   clientState = "closed"   // the client closed the connection itself
)

// Limits of what is remembered.
const (
	maxConversations = 20_000
	pointLifetime    = 24 * time.Hour
)

// How long a client can return while others of its conversation are connected: after its connection broke, and after it
// closed, as a page does that is reloaded.
const (
	reconnectWindow = time.Minute
	reloadWindow    = 15 * time.Second
)

// clients is a group of clients with one position, up to which all of them have read.
type clients struct {
	count int
	at    position
	when  time.Time // when they departed or, if they are connected, when this was noted
	state clientState
}

func (g *clients) add(count int, at position) {
	if g.count > 0 {
		at = g.at.lower(at)
	}
	g.at = at
	g.count += count
}

// mayReturn reports whether they may still return although others are connected.
func (g *clients) mayReturn(now time.Time) bool {
	window := reloadWindow
	if g.state == connectionLost {
		window = reconnectWindow
	}
	return now.Sub(g.when) <= window
}

// resumePoint is how far the clients of one identity and browser have read one session. Its tabs cannot be told apart, so each of
// those that return gets what all of the departed ones have, and none of them misses anything.
type resumePoint struct {
	key          string
	live         []*subscription
	departed     []clients             // that have not returned, in the order of their departures
	conversation string                // the departed clients' name of the session; "" after a restart
	moves        uint64                // the number of the last move, see nodes.go
	elsewhere    map[string]savedPoint // what is known of the clients of other nodes, by node
	answered     time.Time             // when the live ones last responded after a question of another node
}

// mayReturn are the departed clients that may still return although others are connected.
func (p *resumePoint) mayReturn(now time.Time) (list []clients) {
	for _, g := range p.departed {
		if g.mayReturn(now) {
			list = append(list, g)
		}
	}
	return list
}

// maxDeparted bounds the departures that are kept apart.
const maxDeparted = 8

// addDeparted adds clients that departed after the others.
func (p *resumePoint) addDeparted(g clients) {
	if n := len(p.departed); n >= maxDeparted {
		last := &p.departed[n-1]
		last.add(g.count, g.at)
		last.when, last.state = g.when, g.state
		return
	}
	p.departed = append(p.departed, g)
}

// takeDeparted returns the position up to which all departed clients have read, for one of them that returns. It counts as the one that
// departed last, so that the others expire in time if they do not return.
func (p *resumePoint) takeDeparted() (at position, ok bool) {
	n := len(p.departed)
	if n == 0 {
		return at, false
	}
	var all clients
	for _, g := range p.departed {
		all.add(g.count, g.at)
	}
	last := &p.departed[n-1]
	if last.count--; last.count == 0 {
		if n > 1 {
			p.departed[n-2].add(0, last.at) // the one that returned may have been another one
		}
		p.departed = p.departed[:n-1]
	}
	return all.at, true
}

// saved is the line in the file.
func (p *resumePoint) saved(now time.Time) savedPoint {
	s := savedPoint{key: p.key, moves: p.moves}
	if len(p.live) == 0 {
		s.groups = p.departed
		return s
	}
	here := clients{when: now, state: connected}
	for _, sub := range p.live {
		if sub.saved.Base != 0 { // it has a position
			here.add(1, sub.saved)
		}
	}
	s.groups = append(p.mayReturn(now), here)
	return s
}

// resumePoints records who follows each conversation, and how far departed clients have read. NeMo's protocol has no
// cursor, so this is the only way to continue where a client stopped.
type resumePoints struct {
	now   func() time.Time
	nodes *Nodes // nil on a single server

	mu              sync.Mutex
	file            *pointFile
	byKey           map[string]*resumePoint
	waitingForStart map[subscriptionKey][]*subscription // of conversations that do not exist yet
	unsent          map[*resumePoint]bool               // points that have changed since they were sent to other nodes
	questions       map[string]chan nodeMessage         // receive the answers of other nodes
}

func newResumePoints(dir string, nodes *Nodes, now func() time.Time, log *slog.Logger) *resumePoints {
	r := &resumePoints{
		now: now, nodes: nodes, byKey: map[string]*resumePoint{}, waitingForStart: map[subscriptionKey][]*subscription{},
		unsent: map[*resumePoint]bool{}, questions: map[string]chan nodeMessage{},
	}
	file, saved := openPointFile(dir, log)
	r.file = file
	for _, s := range saved {
		if s.node != "" {
			if nodes != nil {
				r.keepPoint(s.node, s)
			}
			continue
		}
		if s.last().state == connected { // until that process ended; no client could return since then
			for i := range s.groups {
				g := &s.groups[i]
				if g.when = now(); g.state == connected {
					g.state = connectionLost
				}
			}
		}
		p := r.point(s.key)
		p.departed, p.moves = s.remembered(now()), s.moves
	}
	if file.path != "" {
		if err := file.rewrite(r.all()); err != nil {
			file.fail(err)
		}
	}
	return r
}

// all yields what the file must have.
func (r *resumePoints) all() iter.Seq[savedPoint] {
	return func(yield func(savedPoint) bool) {
		for _, p := range r.byKey {
			for s := range r.known(p) {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// known yields what this node knows about the clients of a conversation, first its own.
func (r *resumePoints) known(p *resumePoint) iter.Seq[savedPoint] {
	return func(yield func(savedPoint) bool) {
		now := r.now()
		if s := p.saved(now); len(s.remembered(now)) > 0 && !yield(s) {
			return
		}
		for _, s := range p.elsewhere {
			if len(s.remembered(now)) > 0 && !yield(s) {
				return
			}
		}
	}
}

// add adds a client that has nothing of the conversation yet.
func (r *resumePoints) add(key string, sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attach(r.point(key), sub)
}

// addSender adds a client that starts with a message of its own. The positions of departed clients are dropped: a client
// that connects later starts with the running turn.
func (r *resumePoints) addSender(key string, sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.point(key)
	p.departed = nil
	p.move(r.now())
	r.attach(p, sub)
}

// senderLeft records a client whose connection ended before its message was stored, unless the conversation has a point already: then
// the client is one of its clients.
func (r *resumePoints) senderLeft(key, conversation string, message chat.Seq) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[key] != nil {
		return
	}
	p, now := r.point(key), r.now()
	p.conversation = conversation
	p.addDeparted(clients{1, justBefore(message), now, connectionLost})
	p.move(now)
	r.record(p)
}

// resume adds a client that returns, and gives it the position of the departed ones, in a cluster also of those of other nodes.
// Connections that do not answer are closed first. While others are connected and none departed lately, the client is a new tab and has no position.
// A client whose connection has ended meanwhile is not added.
func (r *resumePoints) resume(ctx context.Context, key string, sub *subscription) (at position, ok bool, err error) {
	r.closeStale(key, sub.s)
	live := r.ask(ctx, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return at, false, context.Cause(ctx)
	}
	p, now := r.point(key), r.now()
	others := r.gather(p, live) + len(p.live)
	if current := p.mayReturn(now); others > 0 || len(current) > 0 {
		p.departed = current
	}
	if at, ok = p.takeDeparted(); ok {
		sub.saved = at
	} else if others == 0 {
		p.move(now) // positions of nodes that could not answer are older than this
	}
	r.attach(p, sub)
	return at, ok, nil
}

// attach adds a client; the caller holds mu. A new tab has no position until it is saved.
func (r *resumePoints) attach(p *resumePoint, sub *subscription) {
	p.adopt(p.lastMove())
	sub.point = p
	p.live = append(p.live, sub)
}

// save records how far a connected client has read.
func (r *resumePoints) save(sub *subscription, at position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sub.saved = at
	r.record(sub.point)
}

// record stores a point that has changed; the caller holds mu.
func (r *resumePoints) record(p *resumePoint) {
	r.file.append(p.saved(r.now()), r.all())
	r.changed(p)
}

// depart records where a client stopped whose connection has ended.
func (r *resumePoints) depart(sub *subscription, at position, state clientState) {
	defer r.sendChanges() // at once: the server may be about to end
	r.mu.Lock()
	defer r.mu.Unlock()
	p, now := sub.point, r.now()
	p.live = slices.DeleteFunc(p.live, func(o *subscription) bool { return o == sub })
	p.departed = p.mayReturn(now)
	p.addDeparted(clients{1, at, now, state})
	p.conversation = sub.enc.conversation
	r.record(p)
}

// point returns the resume point of a conversation. To make room it drops conversations without a connected client.
func (r *resumePoints) point(key string) *resumePoint {
	p := r.byKey[key]
	if p != nil {
		return p
	}
	if len(r.byKey) >= maxConversations {
		for old, p := range r.byKey {
			if len(p.live) == 0 {
				delete(r.byKey, old)
			}
			if len(r.byKey) < maxConversations*9/10 {
				break
			}
		}
	}
	p = &resumePoint{key: key}
	r.byKey[key] = p
	return p
}

// closeStale closes the connections of a conversation that do not answer a ping, other than s, which may be nil.
func (r *resumePoints) closeStale(key string, s *socket) {
	r.mu.Lock()
	var others []*subscription
	if p := r.byKey[key]; p != nil {
		for _, sub := range p.live {
			if sub.s != s {
				others = append(others, sub)
			}
		}
	}
	r.mu.Unlock()
	var wait sync.WaitGroup
	for _, o := range others {
		wait.Go(func() {
			if gone := o.s.d.opt.Gone; !o.s.respondsToPing(gone) {
				o.closeReplaced(gone)
			}
		})
	}
	wait.Wait()
}

// lostConversation is the client's name of a conversation whose connection broke within its window (mayReturn), and that it
// has not returned to; "" when there is none.
func (r *resumePoints) lostConversation(key string, sess chat.Session) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.byKey[key]
	if p == nil || len(p.departed) == 0 {
		return ""
	}
	last := &p.departed[len(p.departed)-1]
	switch {
	case last.state == clientClosed || !last.mayReturn(r.now()):
		return ""
	case p.conversation != "":
		return p.conversation
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
