package x1

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// readBarrier blocks reads of one session's log while it is shut.
type readBarrier struct {
	sessions
	id      chat.SessionID
	shut    atomic.Bool
	once    sync.Once
	reached chan struct{} // closed when a read waits
	open    chan struct{}
}

func newReadBarrier(id chat.SessionID) *readBarrier {
	return &readBarrier{id: id, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *readBarrier) Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error) {
	if id == g.id && g.shut.Load() {
		g.once.Do(func() { close(g.reached) })
		<-g.open
	}
	return g.sessions.Read(ctx, c, id, r)
}

// fallBehind marks a session as behind and returns when its log is about to be read.
func (w *testServer) fallBehind(g *readBarrier) *projection {
	w.t.Helper()
	g.shut.Store(true)
	p := w.dialect.project
	p.mu.Lock()
	l := p.projections[g.id]
	p.fallBehind(l, 1)
	p.mu.Unlock()
	select {
	case <-g.reached:
	case <-time.After(testTimeout):
		w.t.Fatal("the log is not read")
	}
	return l
}

// Events that were queued before a session fell behind are published once: from the log.
func TestQueuedEventsAreNotPublishedTwice(t *testing.T) {
	g := newReadBarrier("s1")
	w := newServer(t, options{change: func(o *Options) { g.sessions, o.Sessions = o.Sessions, g }})
	w.create("s1", chat.NoAgent)
	w.create("s2", chat.NoAgent)
	w.complete("s1")
	events := w.dial().follow(Subject("s1", Events))
	l := w.fallBehind(g)
	appended, err := w.Sessions.Append(t.Context(), auth.Local, "s1", []chat.Draft{chat.NewDraft(chat.AgentStatus{Message: "x"})})
	if err != nil {
		t.Fatal(err)
	}
	// Queue the event, as a commit does before its session falls behind.
	p := w.dialect.project
	p.mu.Lock()
	p.queue = append(p.queue, job{projection: l, fact: appended[0].Fact(), at: appended[0].At})
	p.mu.Unlock()
	w.append("s2", chat.AgentStatus{Message: "behind it in the queue"})
	w.complete("s2")
	g.shut.Store(false)
	close(g.open)
	w.complete("s1")
	w.append("s1", chat.AgentStatus{Message: "the last"})
	w.complete("s1")
	events.until("the last", upTo(3))
	if n := len(events.all()); n != 2 {
		t.Errorf("viewers saw %d messages of 2", n)
	}
}

// Events of a session that is behind are not published to clients that lost access meanwhile.
func TestLostAccessWhileASessionIsBehind(t *testing.T) {
	g := newReadBarrier("s1")
	w := newServer(t, options{secured: true, change: func(o *Options) { g.sessions, o.Sessions = o.Sessions, g }})
	alice := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser, chat.ScopeAgent}}
	w.begin("s1", chat.Member{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Role: chat.Viewer})
	w.complete("s1")
	hers, his := w.credential("s1", tokenOf("alice"), Viewer), w.credential("s1", tokenOf("bob"), Viewer)
	gone := make(chan struct{})
	bob := w.dial(nats.UserInfo(his.User, his.Password), nats.CustomInboxPrefix(his.InboxPrefix), nats.MaxReconnects(0), nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	received := []*subscription{bob.follow(Subject("s1", Events)), bob.follow(Subject("s1", Archive))}
	owner := w.with(hers).follow(Subject("s1", Events))
	w.fallBehind(g)
	say := func(text string) {
		t.Helper()
		if _, err := w.Sessions.Append(t.Context(), alice, "s1", []chat.Draft{chat.NewDraft(chat.AgentText{Text: text})}); err != nil {
			t.Fatal(err)
		}
	}
	say("before")
	nobody := []chat.Member{}
	if _, err := w.Sessions.Update(t.Context(), alice, "s1", chat.SessionUpdated{Members: &nobody}); err != nil {
		t.Fatal(err)
	}
	say("after")
	g.shut.Store(false)
	close(g.open)
	owner.until("what was said after", func(e *got) bool { b, ok := e.Body.(chat.AgentText); return ok && b.Text == "after" })
	select {
	case <-gone:
	case <-time.After(testTimeout):
		t.Fatal("the client that lost access is still connected")
	}
	for _, f := range received {
		for _, e := range f.events() {
			if b, ok := e.Body.(chat.AgentText); ok && b.Text == "after" {
				t.Errorf("the client that lost access received %q", b.Text)
			}
		}
	}
}

// Events that are older than the archive keeps are not published to it.
func TestOldEventsAreNotArchivedAgain(t *testing.T) {
	w := newServer(t, options{notStarted: true, change: func(o *Options) { o.Now = func() time.Time { return time.Now().Add(48 * time.Hour) } }})
	w.create("s1", chat.NoAgent)
	for range 5 {
		w.append("s1", chat.AgentStatus{Message: "long ago"})
	}
	w.start()
	p := w.dialect.project
	w.until("all sessions are compared", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.restored && p.behind == 0
	})
	if n := len(w.archive("s1")); n != 0 {
		t.Errorf("%d events are in the archive", n)
	}
}
