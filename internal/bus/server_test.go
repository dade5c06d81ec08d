package bus

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// layout maps what clients publish on in.* to other subjects, and gives guests a service of
// the main account.
func layout() Options {
	return Options{
		Main: Account{Mappings: []Pair{{"a.*.live", "raw.$1.live"}, {"out.*.live", "a.$1.live"}}},
		Accounts: []Account{{
			Name:     "guests",
			Mappings: []Pair{{"a.*.live", "up.$1.live"}, {"a.*.say", "up.$1.say"}},
			Services: []Pair{{"up.*.say", "guest.$1.say"}, {"up.*.live", "guest.$1.live"}},
			Streams:  []string{"a.*.live"},
		}},
		Login: func(in Login) Grant {
			switch in.User {
			case "":
				return Grant{OK: true, Name: "anybody", NoPublish: []string{"a.*.live", "guest.>"}}
			case "guest":
				return Grant{OK: in.Password == "pw", Account: "guests", Name: "guest-7",
					Publish: []string{"up.s1.say", "up.s1.live"}, Subscribe: []string{"a.s1.live", "_INBOX_guest.>"}}
			}
			return Grant{}
		},
	}
}

func start(t *testing.T, opt Options) *Server {
	t.Helper()
	opt.Addr = "127.0.0.1:0"
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	s, err := Start(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client is a connection that records refusals.
type client struct {
	*nats.Conn
	refused chan error
}

func dial(t *testing.T, s *Server, opts ...nats.Option) client {
	t.Helper()
	refused := make(chan error, 16)
	opts = append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }), nats.NoReconnect(), nats.Timeout(30*time.Second))
	c, err := nats.Connect(s.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return client{c, refused}
}

func follow(t *testing.T, c *nats.Conn, subject string) chan *nats.Msg {
	t.Helper()
	got := make(chan *nats.Msg, 64)
	if _, err := c.ChanSubscribe(subject, got); err != nil {
		t.Fatal(err)
	}
	flush(t, c)
	return got
}

func flush(t *testing.T, c *nats.Conn) {
	t.Helper()
	if err := c.FlushTimeout(20 * time.Second); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, from chan *nats.Msg) *nats.Msg {
	t.Helper()
	select {
	case m := <-from:
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("no message")
		return nil
	}
}

func say(t *testing.T, c *nats.Conn, subject, text string) {
	t.Helper()
	if err := c.Publish(subject, []byte(text)); err != nil {
		t.Fatal(err)
	}
	flush(t, c)
}

func TestMappingsSeparateRawAndCommittedMessages(t *testing.T) {
	s := start(t, layout())
	own, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	raw, guests := follow(t, own, "raw.*.live"), follow(t, own, "guest.*.*")
	anybody := dial(t, s)
	guest := dial(t, s, nats.UserInfo("guest", "pw"), nats.CustomInboxPrefix("_INBOX_guest"))
	seen, seenByGuest := follow(t, anybody.Conn, "a.s1.live"), follow(t, guest.Conn, "a.s1.live")

	say(t, anybody.Conn, "a.s1.live", "raw")
	if m := next(t, raw); string(m.Data) != "raw" || m.Subject != "raw.s1.live" {
		t.Fatalf("%s %s", m.Subject, m.Data)
	}
	say(t, guest.Conn, "a.s1.live", "raw of a guest")
	if m := next(t, guests); string(m.Data) != "raw of a guest" || m.Subject != "guest.s1.live" {
		t.Fatalf("%s %s", m.Subject, m.Data)
	}
	say(t, own, "out.s1.live", "committed")
	for _, from := range []chan *nats.Msg{seen, seenByGuest} {
		if m := next(t, from); string(m.Data) != "committed" || m.Subject != "a.s1.live" {
			t.Fatalf("%s %s", m.Subject, m.Data)
		}
	}

	guest.refuse(t, func() { say(t, guest.Conn, "a.s2.live", "not mine") })
	guest.refuse(t, func() { say(t, guest.Conn, "out.s1.live", "as if committed") })
	anybody.refuse(t, func() { say(t, anybody.Conn, "out.s1.live", "as if committed") })
	anybody.refuse(t, func() { say(t, anybody.Conn, "guest.s1.say", "as if a guest") })
	say(t, own, "out.s1.live", "end")
	for _, from := range []chan *nats.Msg{seen, seenByGuest} {
		if m := next(t, from); string(m.Data) != "end" {
			t.Fatalf("something came in between: %s", m.Data)
		}
	}
}

// refuse expects that what f does is not permitted.
func (c client) refuse(t *testing.T, f func()) {
	t.Helper()
	f()
	select {
	case err := <-c.refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it was not refused")
	}
}

func TestPublisherIsTheLoginName(t *testing.T) {
	s := start(t, layout())
	own, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	sub, err := own.Subscribe("guest.*.say", func(m *nats.Msg) {
		name, _ := Publisher(m.Header)
		_ = m.Respond([]byte(m.Subject + " " + name))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	flush(t, own)
	guest := dial(t, s, nats.UserInfo("guest", "pw"), nats.CustomInboxPrefix("_INBOX_guest"))
	forged := nats.NewMsg("a.s1.say")
	forged.Header.Set("Nats-Request-Info", `{"user":"admin"}`)
	m, err := guest.RequestMsg(forged, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Data); got != "guest.s1.say guest-7" {
		t.Fatal(got)
	}
}

func TestUnknownLoginsAreRefused(t *testing.T) {
	s := start(t, layout())
	for name, opt := range map[string]nats.Option{
		"a stranger":                 nats.UserInfo("stranger", "x"),
		"a wrong password":           nats.UserInfo("guest", "no"),
		"the name of the own client": nats.UserInfo(internalUser, ""),
	} {
		if c, err := nats.Connect(s.URL(), opt, nats.NoReconnect(), nats.Timeout(30*time.Second)); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				c.Close()
			}
		}
	}
}

func TestClientsTryAgainWhileTheServerDoesNotServe(t *testing.T) {
	var tries atomic.Int32
	s := start(t, Options{Login: func(Login) Grant {
		n := tries.Add(1)
		return Grant{OK: n > 3, Later: n <= 3, Name: "anybody"}
	}})
	connected, closed := make(chan struct{}, 1), make(chan error, 1)
	c, err := nats.Connect(s.URL(), nats.RetryOnFailedConnect(true), nats.ReconnectWait(time.Millisecond), nats.Timeout(30*time.Second),
		nats.ConnectHandler(func(*nats.Conn) { connected <- struct{}{} }), nats.ClosedHandler(func(c *nats.Conn) { closed <- c.LastError() }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case <-connected:
	case err := <-closed:
		t.Fatalf("the client has given up: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the client is not connected")
	}
}

func TestCutLeavesConnectionsFromWithinTheProcess(t *testing.T) {
	s := start(t, Options{})
	own, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	closed := make(chan struct{})
	dial(t, s, nats.UserInfo("anybody", ""), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err := s.Cut(func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Fatal("the client is still connected")
	}
	flush(t, own)
	if own.Reconnects > 0 {
		t.Fatal("the connection from within the process was closed, too")
	}
}

func TestAConnectionEndsWithItsGrant(t *testing.T) {
	opt := layout()
	opt.Login = func(Login) Grant { return Grant{OK: true, Name: "x", Until: time.Now().Add(50 * time.Millisecond)} }
	s := start(t, opt)
	gone := make(chan struct{})
	c, err := nats.Connect(s.URL(), nats.NoReconnect(), nats.Timeout(30*time.Second), nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	if errors.Is(err, nats.ErrAuthExpired) {
		return // the grant has ended before the client was connected
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("it is still connected")
	}
}

func TestStartFailsIfTheAddressIsInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(t.Context(), Options{Addr: l.Addr().String(), Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Fatal(err)
	}
}

func TestJetStreamSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) uint64 {
		s := start(t, Options{Dir: dir})
		c, err := s.Connect("test")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		defer c.Close()
		js, err := jetstream.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"kept"}}); err != nil {
			t.Fatal(err)
		}
		ack, err := js.Publish(ctx, "kept", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return ack.Sequence
	}
	if a, b := write("one"), write("two"); a != 1 || b != 2 {
		t.Fatal(a, b)
	}
}

func TestBrowsersConnectByWebSocket(t *testing.T) {
	s := start(t, Options{WebSocket: "127.0.0.1:0"})
	c, err := nats.Connect(s.WebSocketURL(), nats.Timeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// lines collects log lines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func TestLogsGoToTheGivenLogger(t *testing.T) {
	var out lines
	s := start(t, Options{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s.Close()
	out.mu.Lock()
	defer out.mu.Unlock()
	if !strings.Contains(out.b.String(), "part=nats") {
		t.Fatal(out.b.String())
	}
}

func TestConnectionsWithTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	s := start(t, Options{TLS: &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}})
	own, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	got := follow(t, own, "hello")
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	c, err := nats.Connect(s.URL(), nats.Timeout(30*time.Second), nats.Secure(&tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	say(t, c, "hello", "over TLS")
	if m := next(t, got); string(m.Data) != "over TLS" {
		t.Fatalf("%s", m.Data)
	}
	if c, err := nats.Connect("nats://"+s.Addr(), nats.NoReconnect()); err == nil {
		defer c.Close()
		if !c.TLSRequired() {
			t.Fatal("a plain connection was taken")
		}
	}
}

func TestListenedReportsSubscribers(t *testing.T) {
	s := start(t, layout())
	if s.Listened("a.s1.live") {
		t.Fatal("nobody is there")
	}
	guest := dial(t, s, nats.UserInfo("guest", "pw"), nats.CustomInboxPrefix("_INBOX_guest"))
	follow(t, guest.Conn, "a.s1.live")
	if !s.Listened("a.s1.live") || s.Listened("a.s2.live") {
		t.Fatal("a guest listens to the first and to nothing else")
	}
}
