package x1

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// ownerless is a store in which writes to some sessions wait, as for an owner in a cluster.
type ownerless struct {
	sessions
	waiting atomic.Int32
	owned   context.Context // ends when the sessions have an owner
	own     context.CancelFunc
}

func (o *ownerless) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	if strings.HasPrefix(string(id), "ownerless-") {
		o.waiting.Add(1)
		select {
		case <-o.owned.Done():
		case <-ctx.Done():
			return nil, chat.Errorf(chat.Unavailable, "no owner")
		}
	}
	return o.sessions.Append(ctx, c, id, drafts)
}

// newOwnerless starts a server with sessions that have no owner, at most limit of whose messages wait in the dialect.
func newOwnerless(t *testing.T, limit, count int) (*testServer, *ownerless) {
	t.Helper()
	o := &ownerless{}
	o.owned, o.own = context.WithCancel(context.Background())
	w := newServer(t, options{notStarted: true, change: func(opt *Options) { o.sessions, opt.Sessions = opt.Sessions, o }})
	t.Cleanup(o.own) // before the server is closed
	w.dialect.inbound.limit = limit
	for i := range count {
		w.create(numbered(i), chat.NoAgent)
	}
	w.start()
	return w, o
}

func numbered(i int) chat.SessionID { return chat.SessionID(fmt.Sprint("ownerless-", i)) }

// messages returns the texts of a session's messages, as a client reads them.
func (c *client) messages(id chat.SessionID) (texts []string) {
	c.w.t.Helper()
	for _, e := range c.history(id) {
		if m, ok := e.Body.(chat.UserMessage); ok {
			texts = append(texts, m.PlainText())
		}
	}
	return texts
}

func TestSessionsWithoutAnOwnerHoldNoOthers(t *testing.T) {
	const sessions, messages = 100, 3
	w, o := newOwnerless(t, maxWaiting, sessions)
	w.create("owned", chat.NoAgent)
	c := w.dial()
	var want []string
	for n := range messages {
		want = append(want, fmt.Sprint("message ", n))
		for i := range sessions {
			c.tell(numbered(i), Input, message(want[n]))
		}
	}
	w.until("each session waits for its owner", func() bool { return o.waiting.Load() == sessions })
	c.say("owned", Input, message("stored"))
	if got := c.messages("owned"); len(got) != 1 {
		t.Errorf("the history of another session has %q", got)
	}
	if got := c.messages(numbered(0)); len(got) != 0 {
		t.Errorf("the history of a session without an owner has %q", got)
	}
	o.own()
	for i := range sessions {
		w.until("the messages are stored", func() bool { return len(c.messages(numbered(i))) == messages })
		if got := c.messages(numbered(i)); !slices.Equal(got, want) {
			t.Errorf("%s has %q", numbered(i), got)
		}
	}
}

func TestMessagesBeyondTheLimitWaitAtNATS(t *testing.T) {
	const messages, limit = 100, 10
	w, o := newOwnerless(t, limit, 1)
	c := w.dial()
	var want []string
	for n := range messages {
		want = append(want, fmt.Sprint("message ", n))
		c.tell(numbered(0), Input, message(want[n]))
	}
	c.flush()
	k := w.dialect.inbound
	waiting := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.messages
	}
	w.until("the limit is reached", func() bool { return waiting() > limit && o.waiting.Load() == 1 })
	if n := waiting(); n != limit+1 { // one more of one subject
		t.Errorf("%d messages wait in the dialect", n)
	}
	o.own()
	w.until("the messages are stored", func() bool { return len(c.messages(numbered(0))) == messages })
	if got := c.messages(numbered(0)); !slices.Equal(got, want) {
		t.Errorf("the session has %q", got)
	}
}

// A guest whose session stores nothing for some time does not hold up the messages of others.
func TestGuestsDoNotUseUpTheRoomForMessages(t *testing.T) {
	const messages, limit = 1000, 200
	o := &ownerless{}
	o.owned, o.own = context.WithCancel(context.Background())
	w := newServer(t, options{secured: true, notStarted: true, change: func(opt *Options) { o.sessions, opt.Sessions = opt.Sessions, o }})
	t.Cleanup(o.own)
	w.dialect.inbound.limit = limit
	w.begin(numbered(0))
	w.begin("owned")
	w.start()
	mallory, alice := w.with(w.credential(numbered(0), tokenOf("alice"), Participant)), w.with(w.credential("owned", tokenOf("alice"), Participant))
	for n := range messages {
		mallory.tell(numbered(0), Input, message(fmt.Sprint("message ", n)))
	}
	mallory.flush()
	w.until("the first message waits", func() bool { return o.waiting.Load() == 1 })
	for n := range 3 {
		m := &nats.Msg{Subject: Subject("owned", Input), Data: encoded("owned", message(fmt.Sprint("hello ", n)))}
		if _, err := alice.RequestMsg(m, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if r := mallory.ask(numbered(0), Input, message("one more")); r.Error == nil || !strings.Contains(r.Error.Description, "too many messages") {
		t.Errorf("%+v", r)
	}
	o.own()
	w.until("the others are stored", func() bool {
		k := w.dialect.inbound
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.messages == 0 && k.bytes == 0
	})
	mallory.say(numbered(0), Input, message("again"))
}

// The server ends although messages wait for an owner. They are refused, one after the other.
func TestMessagesWithoutAnOwnerDoNotHoldTheShutdown(t *testing.T) {
	const messages = 20
	w, o := newOwnerless(t, maxWaiting, 1)
	w.dialect.inbound.closeTime = time.Millisecond
	c := w.dial()
	for n := range messages {
		c.tell(numbered(0), Input, message(fmt.Sprint("message ", n)))
	}
	k := w.dialect.inbound
	w.until("the messages wait", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.messages == messages
	})
	w.close()
	if n := o.waiting.Load(); n != 1 {
		t.Errorf("%d messages were tried", n)
	}
}
