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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/sleep"
)

// testTimeout only catches hangs.
const testTimeout = 60 * time.Second

func tokenOf(name string) string { return servertest.TokenOf(name) }

func user(name string, scopes ...chat.Scope) auth.Token {
	token := servertest.User(name)
	token.Scopes, token.AllWorkspaces = scopes, name == "root"
	return token
}

// options say what differs from an open server.
type options struct {
	secured    bool
	dir        string
	url        string // of an external NATS
	noArchive  bool   // the external NATS has no JetStream
	notStarted bool   // the dialect does not run until start is called
	change     func(*Options)
}

// notOwner says that servers are nodes of a cluster that own no partition.
var notOwner bool

// clusters has the cluster of each data folder, because a server that is opened again needs the same one.
var clusters sync.Map

// clusterOf returns the cluster of a server with a data folder, nil if it is a single server.
func clusterOf(t testing.TB, dir string) *servertest.Cluster {
	if !notOwner {
		return nil
	}
	t.Log("the server is a node that does not own the sessions")
	c, _ := clusters.LoadOrStore(dir, servertest.NewCluster())
	return c.(*servertest.Cluster)
}

// testServer is a server in the process with NATS.
type testServer struct {
	*servertest.Server
	t       testing.TB
	dialect *Dialect
	opened  chan struct{} // closed when the dialect has opened the archive
	bus     *bus.Server
	url     string
	options options
	stops   []func()

	stopDialect func() // set by start; NATS goes on
}

func newServer(t testing.TB, o options) *testServer {
	t.Helper()
	var tokens []auth.Token
	if o.secured {
		tokens = []auth.Token{
			user("alice", chat.ScopeUser), user("bob", chat.ScopeUser), user("agent", chat.ScopeUser, chat.ScopeAgent), user("root", chat.ScopeAdmin),
		}
	}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	s := servertest.Open(t, servertest.Options{Dir: o.dir, Tokens: tokens, Cluster: clusterOf(t, o.dir)})
	w := &testServer{Server: s, t: t, options: o, opened: make(chan struct{})}
	opt := Options{
		Sessions: s.Sessions, Caller: s.Auth.Caller, Main: auth.Local, Dir: w.Dir, External: o.url != "",
		Check: func(chat.Caller) error { return nil }, Refused: func(context.Context, error) {}, Issued: func(chat.Caller, map[string]any) {},
		Allow: func(chat.Caller, int) error { return nil }, Listening: func() { close(w.opened) },
		ErasedSince: func(context.Context, chat.At) (bool, error) { return true, nil },
		Listened:    func(subject string) bool { return w.bus == nil || w.bus.Listened(subject) },
		Cut: func(fits func(string) bool) error {
			if w.bus == nil {
				return nil
			}
			return w.bus.Cut(fits)
		},
	}
	if testing.Verbose() {
		opt.Logger = slog.New(slog.NewTextHandler(testLog{t}, nil))
	}
	if o.secured {
		opt.Token = s.Auth.Authenticate
		opt.Main.Actor = chat.Actor{Kind: chat.User, ID: "admin"}
	}
	if o.change != nil {
		o.change(&opt)
	}
	var err error
	if w.dialect, err = New(opt); err != nil {
		t.Fatal(err)
	}
	s.Sessions.Observe(session.Observer{Published: w.dialect.Published, Erased: w.dialect.Erased})
	s.Serve(w.dialect.Routes())
	w.stops = append(w.stops, s.Close)
	t.Cleanup(w.close)
	if !o.notStarted {
		w.start()
	}
	return w
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// start starts NATS and the dialect.
func (w *testServer) start() {
	w.t.Helper()
	var conn *nats.Conn
	var err error
	if w.options.url != "" {
		w.url = w.options.url
		conn, err = bus.Dial(w.url, "parley", nil)
	} else {
		main, guests := Accounts()
		w.bus, err = bus.Start(w.t.Context(), bus.Options{
			Addr: "127.0.0.1:0", Dir: w.Dir + "/nats", Main: main, Accounts: []bus.Account{guests},
			Login: func(in bus.Login) bus.Grant { return w.dialect.Login(context.Background(), in) },
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.url = w.bus.URL()
		w.dialect.Reachable(w.url, "", "")
		conn, err = w.bus.Connect("parley")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.dialect.Run(ctx, conn) }()
	w.stopDialect = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
	})
	w.stops = append(w.stops, func() {
		w.stopDialect()
		conn.Close()
		if w.bus != nil {
			w.bus.Close()
		}
	})
	// The dialect listens when it answers a request for history.
	probe := w.root()
	w.until("the dialect listens", func() bool {
		_, err := probe.Request(Subject("nothing", History), nil, time.Second)
		return err == nil
	})
	probe.Close()
	if w.options.noArchive {
		return
	}
	select {
	case <-w.opened:
	case <-time.After(testTimeout):
		w.t.Fatal("the archive is not opened")
	}
}

// close stops the server, the last started part first.
func (w *testServer) close() {
	for i := len(w.stops) - 1; i >= 0; i-- {
		w.stops[i]()
	}
	w.stops = nil
}

// until waits until ok returns true.
func (w *testServer) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(testTimeout); !ok(); {
		if time.Now().After(end) {
			w.t.Fatalf("not in time: %s", what)
		}
		sleep.For(w.t.Context(), 2*time.Millisecond)
	}
}

// call makes an HTTP request.
func (w *testServer) call(method, path, token string, body any, into any) int {
	w.t.Helper()
	var b bytes.Buffer
	if body != nil {
		_ = json.NewEncoder(&b).Encode(body)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.HTTP.URL+path, &b)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := w.HTTP.Client().Do(r)
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

func (w *testServer) credential(id chat.SessionID, token string, role Role) Credential {
	w.t.Helper()
	var cred Credential
	if code := w.call("POST", fmt.Sprintf("/parley/v1/sessions/%s/credentials", id), token, map[string]any{"role": role}, &cred); code != http.StatusCreated {
		w.t.Fatalf("no credential: %d", code)
	}
	return cred
}
