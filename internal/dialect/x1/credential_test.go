package x1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// begin creates a session of alice.
func (w *testServer) begin(id chat.SessionID, members ...chat.Member) {
	w.t.Helper()
	alice := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}}
	if _, _, err := w.Sessions.Create(w.t.Context(), alice, chat.NewSession{ID: id, Agent: chat.NoAgent, Members: members}); err != nil {
		w.t.Fatal(err)
	}
}

func TestACredentialIsForOneSession(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("mine")
	w.begin("other")
	c := w.with(w.credential("mine", tokenOf("alice"), Participant))
	events := c.follow(Subject("mine", Events))
	r := c.say("mine", Input, message("hello"))
	if e := events.until("my message", typ("user.message")); e.Seq != r.Sequence || e.Actor.ID != "alice" {
		t.Fatalf("%+v", e.Event)
	}
	// Nobody else's name can be used.
	c.say("mine", Input, Message{Type: "user.message", Payload: json.RawMessage(`{"text":"x","user_id":"root"}`)})
	if l := w.Events("mine"); l[len(l)-1].Actor.ID != "alice" {
		t.Fatalf("%+v", l[len(l)-1].Actor)
	}
	if _, err := c.Request(Subject("mine", History), nil, testTimeout); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{
		Subject("other", Events), Subject("other", Archive), Subject("other", Delta), Subject("other", Input), Subject("mine", Input),
		"x1.session.*.events", "x1.session.>", "x1.>", ">", "*.*.*.events", "parley.>", rawPrefix + ">", guestPrefix + ">", upPrefix + ">", "_INBOX.>", "_INBOX_*.>", "$JS.>", "$SYS.>", "x1.audit.>", "x1.provider.>",
	} {
		c.refusedBy("subscribe "+subject, func() {
			if _, err := c.SubscribeSync(subject); err != nil {
				t.Fatal(subject, err)
			}
		})
	}
	for _, subject := range []string{
		Subject("other", Input), Subject("other", Presence), Subject("other", History), Subject("other", Events), Subject("other", Traffic),
		Subject("mine", Events), Subject("mine", Archive), Subject("mine", Delta), Subject("mine", Traffic),
		outPrefix + "mine.events", rawPrefix + "other.input", guestPrefix + "other.input", upPrefix + "other.input", upPrefix + "mine.events",
		"$JS.API.STREAM.INFO." + ArchiveStream, "$JS.API.DIRECT.GET." + ArchiveStream, "$JS.API.STREAM.MSG.GET." + ArchiveStream,
		"$JS.API.STREAM.PURGE." + ArchiveStream, "$JS.API.CONSUMER.CREATE." + ArchiveStream, "$JS.API.STREAM.DELETE." + ArchiveStream, "$JS.API.INFO",
		"x1.provider.graph.query", "x1.audit.x", "x1.image.build", "_INBOX.somebody",
	} {
		c.refusedBy("publish "+subject, func() {
			if err := c.Publish(subject, encoded("other", message("forged"))); err != nil {
				t.Fatal(subject, err)
			}
		})
	}
	if n := len(w.Events("other")); n != 1 {
		t.Fatalf("%d events in the other session", n)
	}
}

func TestASidecarsCredential(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("mine", chat.Member{Actor: chat.Actor{Kind: chat.User, ID: "agent"}, Role: chat.Answerer})
	w.begin("other")
	c := w.with(w.credential("mine", tokenOf("agent"), Sidecar))
	input := c.follow(Subject("mine", Input))
	m := event("agent.text", `{"text":"hi"}`, 0)
	if r := c.say("mine", Events, m); r.Sequence == 0 {
		t.Fatalf("%+v", r)
	}
	w.with(w.credential("mine", tokenOf("alice"), Participant)).say("mine", Input, message("hello"))
	input.until("what alice says", typ("user.message"))
	c.refusedBy("input of its own session", func() { c.tell("mine", Input, message("as if a person")) })
	c.refusedBy("events of another", func() { c.tell("other", Events, m) })
	c.refusedBy("input of another", func() { _, _ = c.SubscribeSync(Subject("other", Input)) })
}

func TestCredentialsAreBoundedByAccess(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("s1", chat.Member{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Role: chat.Viewer})
	w.begin("s2")
	for _, c := range []struct {
		who, session string
		body         map[string]any
		code         int
	}{
		{"alice", "s1", nil, 201},
		{"alice", "s1", map[string]any{"role": "sidecar"}, 403}, // no scope agent
		{"bob", "s1", map[string]any{"role": "viewer"}, 201},
		{"bob", "s1", map[string]any{"role": "participant"}, 403},
		{"bob", "s2", nil, 404},
		{"alice", "none", nil, 404},
		{"alice", "s1", map[string]any{"role": "king"}, 400},
		{"alice", "s1", map[string]any{"ttl": 1e9}, 400},
		{"alice", "s1", map[string]any{"ttl": -1}, 400},
		{"", "s1", nil, 401},
	} {
		token := ""
		if c.who != "" {
			token = tokenOf(c.who)
		}
		var body map[string]any
		if code := w.call("POST", "/parley/v1/sessions/"+c.session+"/credentials", token, c.body, &body); code != c.code {
			t.Errorf("%s asks for %s %v: %d %v", c.who, c.session, c.body, code, body)
		}
	}
	viewer := w.with(w.credential("s1", tokenOf("bob"), Viewer))
	viewer.refusedBy("a viewer speaks", func() { viewer.tell("s1", Input, message("x")) })
}

// The check of a credential that was made with a cookie includes the sign-in of the browser.
func TestACredentialNamesTheSignInOfItsBrowser(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("s1")
	alice := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}, Credential: "key.1", SignIn: "browser"}
	cred, err := w.dialect.issue(t.Context(), alice, "s1", Viewer, 0)
	if err != nil {
		t.Fatal(err)
	}
	h, err := w.dialect.keys.check(cred.User, cred.Password)
	if c := h.caller(); err != nil || c.SignIn != alice.SignIn || c.Credential != alice.Credential {
		t.Errorf("%+v %v", c, err)
	}
}

// A client that logged in with a token that was made with a cookie is disconnected when the browser is signed out.
func TestALoginEndsWithTheSignInOfItsBrowser(t *testing.T) {
	var out atomic.Bool
	w := newServer(t, options{secured: true, change: func(o *Options) {
		token := o.Token
		o.Token = func(ctx context.Context, secret string) (chat.Caller, error) {
			if secret != "issued" {
				return token(ctx, secret)
			}
			return chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "root"}, Scopes: []chat.Scope{chat.ScopeAdmin}, AllWorkspaces: true, Credential: "key.1", SignIn: "b1"}, nil
		}
		o.Check = func(c chat.Caller) error {
			if c.SignIn == "b1" && out.Load() {
				return errors.New("signed out")
			}
			return nil
		}
	}})
	for _, user := range []string{"", "a#b", sidecarUser} {
		out.Store(false)
		closed := make(chan struct{})
		c, err := nats.Connect(w.url, nats.UserInfo(user, "issued"), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		out.Store(true)
		w.dialect.Revoked()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Errorf("%q is still connected", user)
		}
	}
}

func TestForgedAndExpiredCredentials(t *testing.T) {
	now := time.Now()
	var later atomic.Int64
	w := newServer(t, options{secured: true, change: func(o *Options) { o.Now = func() time.Time { return now.Add(time.Duration(later.Load())) } }})
	w.begin("s1")
	good := w.credential("s1", tokenOf("alice"), Viewer)
	stronger, _, err := w.dialect.keys.issue(claims{Session: "s1", Role: Sidecar, Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Until: now.Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name string, opts ...nats.Option) {
		t.Helper()
		c, err := nats.Connect(w.url, append(opts, nats.NoReconnect(), nats.Timeout(30*time.Second))...)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("another name under the same password", nats.UserInfo(stronger, good.Password))
	refused("no password", nats.UserInfo(good.User, ""))
	refused("nobody")
	refused("the sidecar's name", nats.UserInfo(sidecarUser, ""))
	refused("a person's token", nats.Token(tokenOf("alice")))
	refused("a wrong token", nats.Token("x"))
	if c, err := nats.Connect(w.url, nats.UserInfo(sidecarUser, tokenOf("root")), nats.Timeout(30*time.Second)); err != nil {
		t.Error("the sidecar's name with an administrator's token:", err)
	} else {
		c.Close()
	}
	later.Store(int64(defaultLife + time.Second))
	refused("one that has expired", nats.UserInfo(good.User, good.Password))
	later.Store(0)
	if _, err := w.Sessions.Erase(t.Context(), chat.Trusted, "s1"); err != nil {
		t.Fatal(err)
	}
	refused("one of an erased session", nats.UserInfo(good.User, good.Password))
}

// On an open server every client may read and send, but only the server publishes stored
// events.
func TestClientsCannotForgeCommittedEvents(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	w.create("s1", chat.NoAgent)
	for _, k := range []Kind{Events, Archive, Input, Delta} {
		c.refusedBy(string(k), func() { _ = c.Publish(outPrefix+"s1."+string(k), encoded("s1", message("forged"))) })
	}
	c.refusedBy("as a guest", func() { _ = c.Publish(guestPrefix+"s1.input", encoded("s1", message("forged"))) })
	c.refusedBy("delete the archive", func() { _ = c.Publish("$JS.API.STREAM.DELETE."+ArchiveStream, nil) })
	w.complete("s1")
}

func TestReadingTheArchiveNeedsNoCredentialInOpenMode(t *testing.T) {
	w := newServer(t, options{})
	w.create("s1", chat.NoAgent)
	w.complete("s1")
	js, err := jetstream.New(w.dial().Conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), ArchiveStream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), Subject("s1", Archive))
	if err != nil || !strings.Contains(string(m.Data), `"session.started"`) {
		t.Fatal(m, err)
	}
}

func TestCredentialsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	w.create("s1", chat.NoAgent)
	cred := w.credential("s1", "", Viewer)
	w.close()
	w = newServer(t, options{dir: dir})
	if c := w.with(cred); !c.IsConnected() {
		t.Fatal("it does not get in")
	}
	if s := fmt.Sprint(cred); strings.Contains(s, cred.Password) {
		t.Fatal(s)
	}
	var body struct {
		Error struct{ Code, Message string }
	}
	if code := w.call("POST", "/parley/v1/sessions/nope/credentials", "", nil, &body); code != http.StatusNotFound || body.Error.Code != "not_found" {
		t.Fatal(code, body)
	}
}
