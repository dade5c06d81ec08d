package x1

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// client is a connection that records refusals of NATS.
type client struct {
	*nats.Conn
	w       *testServer
	refused chan error
}

func (w *testServer) dial(opts ...nats.Option) *client {
	w.t.Helper()
	c := &client{w: w, refused: make(chan error, 64)}
	opts = append([]nats.Option{nats.Timeout(30 * time.Second), nats.RetryOnFailedConnect(w.options.url != ""), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case c.refused <- err:
			default:
			}
		})}, opts...)
	var err error
	if c.Conn, err = nats.Connect(w.url, opts...); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// root connects with all permissions.
func (w *testServer) root() *client {
	w.t.Helper()
	if w.options.secured {
		return w.dial(nats.Token(tokenOf("root")))
	}
	return w.dial()
}

// with connects with a credential.
func (w *testServer) with(cred Credential) *client {
	w.t.Helper()
	return w.dial(nats.UserInfo(cred.User, cred.Password), nats.CustomInboxPrefix(cred.InboxPrefix), nats.MaxReconnects(0))
}

func (c *client) flush() {
	c.w.t.Helper()
	if err := c.FlushTimeout(testTimeout); err != nil {
		c.w.t.Fatal(err)
	}
}

// follow collects the messages on a subject.
func (c *client) follow(subject string) *subscription {
	c.w.t.Helper()
	f := &subscription{w: c.w, news: make(chan struct{}, 1)}
	if _, err := c.Subscribe(subject, f.add); err != nil {
		c.w.t.Fatal(err)
	}
	c.flush()
	return f
}

// say publishes an envelope and expects that it is stored.
func (c *client) say(id chat.SessionID, kind Kind, m Message) Reply {
	c.w.t.Helper()
	r := c.ask(id, kind, m)
	if r.Error != nil {
		c.w.t.Fatalf("%s: %s", m.Type, r.Error.Description)
	}
	return r
}

func (c *client) ask(id chat.SessionID, kind Kind, m Message) Reply {
	c.w.t.Helper()
	return c.askMsg(&nats.Msg{Subject: Subject(id, kind), Data: encoded(id, m)})
}

func (c *client) askMsg(m *nats.Msg) (r Reply) {
	c.w.t.Helper()
	res, err := c.RequestMsg(m, testTimeout)
	if err != nil {
		c.w.t.Fatal(err)
	}
	if err := json.Unmarshal(res.Data, &r); err != nil {
		c.w.t.Fatalf("%s: %v", res.Data, err)
	}
	return r
}

// tell publishes without waiting for an answer.
func (c *client) tell(id chat.SessionID, kind Kind, m Message) {
	c.w.t.Helper()
	if err := c.Publish(Subject(id, kind), encoded(id, m)); err != nil {
		c.w.t.Fatal(err)
	}
}

func encoded(id chat.SessionID, m Message) []byte {
	if m.Session == "" {
		m.Session = id
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func message(text string) Message {
	b, _ := json.Marshal(map[string]string{"text": text})
	return Message{Type: "user.message", Payload: b}
}

func event(typ, payload string, n int64) Message {
	return Message{Type: typ, Payload: json.RawMessage(payload), Sequence: &n, Timestamp: time.Now().UTC().Format(time.RFC3339Nano)}
}

// refusedBy expects that NATS does not permit what f does.
func (c *client) refusedBy(what string, f func()) {
	c.w.t.Helper()
	f()
	c.flush()
	select {
	case err := <-c.refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			c.w.t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(testTimeout):
		c.w.t.Fatalf("%s: it was not refused", what)
	}
}

// subscription has the received messages, in order.
type subscription struct {
	w    *testServer
	news chan struct{}

	mu   sync.Mutex
	msgs []*nats.Msg
}

func (f *subscription) add(m *nats.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.msgs = append(f.msgs, m)
	select {
	case f.news <- struct{}{}:
	default:
	}
}

func (f *subscription) all() []*nats.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*nats.Msg(nil), f.msgs...)
}

// got is a received envelope.
type got struct {
	chat.Event
	raw []byte
}

func (f *subscription) events() (list []got) {
	f.w.t.Helper()
	for _, m := range f.all() {
		e, err := chat.ParseEvent(m.Data)
		if err != nil {
			f.w.t.Fatalf("%s: %v", m.Data, err)
		}
		list = append(list, got{e, m.Data})
	}
	return list
}

// until waits until an event fits and returns it.
func (f *subscription) until(what string, fits func(e *got) bool) got {
	f.w.t.Helper()
	late := time.NewTimer(testTimeout)
	defer late.Stop()
	for {
		for _, e := range f.events() {
			if fits(&e) {
				return e
			}
		}
		select {
		case <-f.news:
		case <-late.C:
			f.w.t.Fatalf("%s did not come; there are %d messages", what, len(f.all()))
		}
	}
}

func typ(name string) func(*got) bool { return func(e *got) bool { return e.Type == name } }

func upTo(seq chat.Seq) func(*got) bool { return func(e *got) bool { return e.Seq >= seq } }
