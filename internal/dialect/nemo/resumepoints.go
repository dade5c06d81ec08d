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

// clientState is what a resume point says about its clients; the values are in the file.
type clientState string

// The states.
const (
	connected      clientState = "live"
	connectionLost clientState = "left"
	pageUnloaded   clientState = "parted" // the page was closed, or is being reloaded
	clientClosed   clientState = "turned" // the client closed the connection itself
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

// resumePoint is how far the clients of one identity and browser have read one session. Its tabs cannot be told apart, so
// those that departed within one window share the lowest position among them, and none of them misses anything.
type resumePoint struct {
	live         []*subscription
	departed     savedPoint            // no clients when all have returned
	conversation string                // the departed clients' name of the session; "" after a restart
	moves        uint64                // the number of the last move, see nodes.go
	elsewhere    map[string]savedPoint // what is known of the clients of other nodes, by node
	answered     time.Time             // when the live ones have last responded to a question of another node
}

// mayReturn reports whether departed clients may still return although others are connected.
func (p *resumePoint) mayReturn(now time.Time) bool {
	window := reloadWindow
	if p.departed.state == connectionLost {
		window = reconnectWindow
	}
	return p.departed.clients > 0 && now.Sub(p.departed.when) <= window
}

// saved is the line in the file: the lowest position of all clients that have one.
func (p *resumePoint) saved(now time.Time) savedPoint {
	s := p.departed
	s.moves = p.moves
	if len(p.live) == 0 {
		return s
	}
	if s.state, s.when = connected, now; !p.mayReturn(now) {
		s.clients = 0
	}
	for _, sub := range p.live {
		if sub.saved.Base == 0 {
			continue // it has none yet
		}
		if s.clients == 0 || sub.saved.before(s.at) {
			s.at = sub.saved
		}
		s.clients++
	}
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
	unsent          map[*resumePoint]bool               // those that other nodes do not have yet
	questions       map[string]chan nodeMessage         // get the answers of other nodes
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
				r.heardPoint(s.node, s)
			}
			continue
		}
		if s.state == connected {
			s.state, s.when = connectionLost, now() // by the end of that process
		}
		if now().Sub(s.when) < pointLifetime {
			p := r.point(s.key)
			p.departed, p.moves = s, s.moves
		}
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
		if s := p.saved(now); s.clients > 0 && now.Sub(s.when) < pointLifetime && !yield(s) {
			return
		}
		for _, s := range p.elsewhere {
			if now.Sub(s.when) < pointLifetime && !yield(s) {
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

// addSender adds a client that starts with a message of its own. What departed clients have read is forgotten: a client
// that connects later starts with the running turn.
func (r *resumePoints) addSender(key string, sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.point(key)
	p.departed.clients = 0
	p.move(r.now())
	r.attach(p, sub)
}

// resume adds a client that returns, and gives it the position of the departed ones, in a cluster also of those of other nodes.
// Connections that do not answer are closed first. While others are connected and none departed lately, the client is a new tab and has no position.
func (r *resumePoints) resume(ctx context.Context, key string, sub *subscription) (at position, ok bool) {
	r.closeStale(key, sub.s)
	live := r.ask(ctx, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.point(key)
	if ctx.Err() == nil {
		others := r.gather(p, live) + len(p.live)
		ok = p.departed.clients > 0 && (others == 0 || p.mayReturn(r.now()))
		if !ok && others == 0 {
			p.move(r.now()) // what a node has that could not answer is older than what this client gets
		}
	}
	if ok {
		p.departed.clients--
		at, sub.saved = p.departed.at, p.departed.at
	}
	r.attach(p, sub)
	return at, ok
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
	if !p.mayReturn(now) {
		p.departed.clients = 0
	}
	if p.departed.clients == 0 || at.before(p.departed.at) {
		p.departed.at = at
	}
	p.departed.clients++
	p.departed.when, p.departed.state = now, state
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
	p = &resumePoint{departed: savedPoint{key: key}}
	r.byKey[key] = p
	return p
}

// closeStale closes the connections of a conversation that do not answer a ping, other than s, which may be nil.
func (r *resumePoints) closeStale(key string, s *socket) {
	r.mu.Lock()
	var others []*socket
	if p := r.byKey[key]; p != nil {
		for _, sub := range p.live {
			if sub.s != s {
				others = append(others, sub.s)
			}
		}
	}
	r.mu.Unlock()
	var wait sync.WaitGroup
	for _, o := range others {
		wait.Go(func() {
			if gone := o.d.opt.Gone; !o.respondsToPing(gone) {
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
	switch {
	case p == nil || p.departed.state == clientClosed || !p.mayReturn(r.now()):
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
