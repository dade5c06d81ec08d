package x1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/agent/demo"
	"github.com/parley-hq/parley/auth"
	"github.com/parley-hq/parley/bus"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/hub"
	"github.com/parley-hq/parley/journal"
	"github.com/parley-hq/parley/server"
	"github.com/parley-hq/parley/session"
)

// patience only catches hangs.
const patience = 60 * time.Second

// people of the tests that need authentication.
func tokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

func person(name string, scopes ...chat.Scope) auth.Token {
	return auth.Token{Token: auth.Secret(tokenOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: scopes}
}

// setup says what differs from an open server.
type setup struct {
	secured bool
	dir     string
	url     string // of a NATS that runs elsewhere
	still   bool   // the dialect does not speak until speak is called
	change  func(*Options)
}

// world is a whole server in the process: the real store, rules, agents and NATS.
type world struct {
	t        testing.TB
	dir      string
	journal  *journal.Journal
	sessions *session.Sessions
	dialect  *Dialect
	bus      *bus.Server
	http     *httptest.Server
	url      string
	setup    setup
	quit     []func()
}

// tapped is the hub with the dialect listening, as in cmd.
type tapped struct {
	*hub.Hub
	d *Dialect
}

func (t *tapped) Publish(id chat.SessionID, entries []chat.Entry) {
	t.Hub.Publish(id, entries)
	t.d.Published(id, entries)
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, dir: s.dir, setup: s}
	if w.dir == "" {
		w.dir = t.TempDir()
	}
	var err error
	if w.journal, err = journal.Open(w.dir+"/store", journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1}); err != nil {
		t.Fatal(err)
	}
	h := hub.New(w.journal, hub.Options{})
	registry := agent.NewRegistry(agent.NewPool(agent.PoolOptions{}))
	registry.Add(demo.Info, demo.Agent{})
	runner := agent.NewRunner(registry, agent.Options{Grace: time.Millisecond, Clean: true})
	live := &tapped{Hub: h}
	w.sessions = session.New(w.journal, live, session.Options{
		Committed: runner.Committed, Erased: func(id chat.SessionID) { runner.Erased(id); w.dialect.Erased(id) },
	})
	runner.Attach(w.sessions)
	who := auth.Options{Rate: -1}
	if s.secured {
		who.Tokens = []auth.Token{
			person("alice", chat.ScopeUser), person("bob", chat.ScopeUser), person("agent", chat.ScopeUser, chat.ScopeAgent), person("root", chat.ScopeAdmin),
		}
	}
	a, err := auth.New(who)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Listened: func(s string) bool { return w.bus == nil || w.bus.Listened(s) }, Sessions: w.sessions, Caller: a.Caller, Main: auth.Local, Signed: bus.Publisher, Dir: w.dir, External: s.url != ""}
	if testing.Verbose() {
		opt.Logger = slog.New(slog.NewTextHandler(logTo{t}, nil))
	}
	if s.secured {
		opt.Token = a.Authenticate
		opt.Main.Actor = chat.Actor{Kind: chat.User, ID: "admin"}
	}
	if s.change != nil {
		s.change(&opt)
	}
	if w.dialect, err = New(opt); err != nil {
		t.Fatal(err)
	}
	live.d = w.dialect
	srv, err := server.New(server.Options{Auth: a, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.dialect.Routes() {
		srv.Handle(r)
	}
	w.http = httptest.NewServer(srv.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.journal.Run(ctx) })
	wg.Go(func() { _ = w.sessions.Run(ctx) })
	wg.Go(func() { _ = runner.Run(ctx) })
	w.quit = append(w.quit, func() {
		w.http.Client().CloseIdleConnections()
		w.http.Close()
		cancel()
		wg.Wait()
		h.Close(nil)
		if err := w.journal.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.close)
	if !s.still {
		w.speak()
	}
	return w
}

type logTo struct{ t testing.TB }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// speak starts NATS and the dialect.
func (w *world) speak() {
	w.t.Helper()
	var conn *nats.Conn
	var err error
	if w.setup.url != "" {
		w.url = w.setup.url
		conn, err = bus.Dial(w.url, "parley", nil)
	} else {
		layout := Subjects()
		pairs := func(list []Pair) (out []bus.Pair) {
			for _, p := range list {
				out = append(out, bus.Pair(p))
			}
			return out
		}
		w.bus, err = bus.Start(w.t.Context(), bus.Options{
			Addr: "127.0.0.1:0", Dir: w.dir + "/nats", Main: bus.Account{Mappings: pairs(layout.Main)},
			Accounts: []bus.Account{{Name: GuestAccount, Mappings: pairs(layout.GuestMappings), Services: pairs(layout.GuestServices), Streams: layout.GuestStreams}},
			Login: func(in bus.Login) bus.Grant {
				a := w.dialect.Login(context.Background(), in.User, in.Password, in.Token)
				return bus.Grant{OK: a.OK, Account: a.Account, Name: a.Name, Publish: a.Publish, Subscribe: a.Subscribe, NoPublish: a.NoPublish, Until: a.Until}
			},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.url = w.bus.URL()
		w.dialect.Reachable(w.url, "")
		conn, err = w.bus.Connect("parley")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.dialect.Run(ctx, conn) }()
	w.quit = append(w.quit, func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
		conn.Close()
		if w.bus != nil {
			w.bus.Close()
		}
	})
	// It listens once the archive is there and a question is answered.
	probe := w.root()
	w.until("the dialect listens", func() bool {
		_, err := probe.Request(Subject("nothing", History), nil, time.Second)
		return err == nil
	})
	probe.Close()
}

// close ends the world, in order.
func (w *world) close() {
	for i := len(w.quit) - 1; i >= 0; i-- {
		w.quit[i]()
	}
	w.quit = nil
}

// until waits for something that happens by itself.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			w.t.Fatalf("it did not happen in time: %s", what)
		}
		pause(w.t.Context(), 2*time.Millisecond)
	}
}

// client is a connection that remembers what was refused.
type client struct {
	*nats.Conn
	w       *world
	refused chan error
}

func (w *world) dial(opts ...nats.Option) *client {
	w.t.Helper()
	c := &client{w: w, refused: make(chan error, 64)}
	opts = append([]nats.Option{nats.RetryOnFailedConnect(w.setup.url != ""), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
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

// root connects as whoever may do everything.
func (w *world) root() *client {
	w.t.Helper()
	if w.setup.secured {
		return w.dial(nats.Token(tokenOf("root")))
	}
	return w.dial()
}

// with connects with a credential.
func (w *world) with(cred Credential) *client {
	w.t.Helper()
	return w.dial(nats.UserInfo(cred.User, cred.Password), nats.CustomInboxPrefix(cred.InboxPrefix), nats.MaxReconnects(0))
}

func (c *client) flush() {
	c.w.t.Helper()
	if err := c.FlushTimeout(patience); err != nil {
		c.w.t.Fatal(err)
	}
}

// follow collects what comes on a subject.
func (c *client) follow(subject string) *feed {
	c.w.t.Helper()
	f := &feed{w: c.w, news: make(chan struct{}, 1)}
	if _, err := c.Subscribe(subject, f.add); err != nil {
		c.w.t.Fatal(err)
	}
	c.flush()
	return f
}

// say publishes an envelope and expects that it becomes a fact.
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
	res, err := c.RequestMsg(m, patience)
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
	case <-time.After(patience):
		c.w.t.Fatalf("%s: it was not refused", what)
	}
}

// feed is what a subscription got, in order.
type feed struct {
	w    *world
	news chan struct{}

	mu   sync.Mutex
	msgs []*nats.Msg
}

func (f *feed) add(m *nats.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.msgs = append(f.msgs, m)
	select {
	case f.news <- struct{}{}:
	default:
	}
}

func (f *feed) all() []*nats.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*nats.Msg(nil), f.msgs...)
}

// got is an envelope that came.
type got struct {
	chat.Event
	raw []byte
}

func (f *feed) events() (list []got) {
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
func (f *feed) until(what string, fits func(e *got) bool) got {
	f.w.t.Helper()
	late := time.NewTimer(patience)
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

// archive reads what JetStream has of a session.
func (w *world) archive(id chat.SessionID) (list []got) {
	w.t.Helper()
	reader := w.root()
	defer reader.Close()
	js, err := jetstream.New(reader.Conn)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	c, err := js.OrderedConsumer(ctx, ArchiveStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{Subject(id, Archive)}})
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := c.Info(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if info.NumPending == 0 {
		return nil
	}
	batch, err := c.FetchNoWait(int(info.NumPending))
	if err != nil {
		w.t.Fatal(err)
	}
	for m := range batch.Messages() {
		e, err := chat.ParseEvent(m.Data())
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, got{e, m.Data()})
	}
	if err := batch.Error(); err != nil {
		w.t.Fatal(err)
	}
	return list
}

// log is the session as it is stored.
func (w *world) log(id chat.SessionID) (list []chat.Event) {
	w.t.Helper()
	for facts, err := range w.dialect.pages(w.t.Context(), id, 0) {
		if chat.CodeOf(err) == chat.NotFound {
			return nil // it has not begun
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				w.t.Fatal(err)
			}
			list = append(list, e)
		}
	}
	return list
}

// complete waits until the archive has all of a session, and checks that it has
// each event once and in order.
func (w *world) complete(id chat.SessionID) {
	w.t.Helper()
	var have []got
	want := w.log(id)
	reader := w.root()
	defer reader.Close()
	w.until("the archive of "+string(id)+" is complete", func() bool {
		m, err := reader.Request("$JS.API.DIRECT.GET."+ArchiveStream+"."+Subject(id, Archive), nil, patience)
		if err != nil {
			w.t.Fatal(err)
		}
		last, err := chat.ParseEvent(m.Data)
		return err == nil && int(last.Seq) >= len(want)
	})
	have = w.archive(id)
	if len(have) != len(want) {
		w.t.Fatalf("the archive of %s has %d events, the log %d", id, len(have), len(want))
	}
	for i := range have {
		if have[i].Seq != chat.Seq(i+1) || have[i].ID != want[i].ID {
			w.t.Fatalf("the archive of %s has %d at place %d", id, have[i].Seq, i+1)
		}
	}
}

func (w *world) create(id chat.SessionID, agent string) {
	w.t.Helper()
	if _, _, err := w.sessions.Create(w.t.Context(), auth.Local, chat.NewSession{ID: id, Agent: agent}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) append(id chat.SessionID, bodies ...chat.Body) {
	w.t.Helper()
	var drafts []chat.Draft
	for _, b := range bodies {
		drafts = append(drafts, chat.NewDraft(b))
	}
	if _, err := w.sessions.Append(w.t.Context(), auth.Local, id, drafts); err != nil {
		w.t.Fatal(err)
	}
}

// call makes an HTTP request.
func (w *world) call(method, path, token string, body any, into any) int {
	w.t.Helper()
	var b bytes.Buffer
	if body != nil {
		_ = json.NewEncoder(&b).Encode(body)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, &b)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := w.http.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(all, into); err != nil {
			w.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, all)
		}
	}
	return res.StatusCode
}

func (w *world) credential(id chat.SessionID, token string, role Role) Credential {
	w.t.Helper()
	var cred Credential
	if code := w.call("POST", fmt.Sprintf("/parley/v1/sessions/%s/credentials", id), token, map[string]any{"role": role}, &cred); code != http.StatusCreated {
		w.t.Fatalf("no credential: %d", code)
	}
	return cred
}
