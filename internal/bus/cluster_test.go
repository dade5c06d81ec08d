package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/internal/freeport"
)

func routeKey(secret string) []byte { return derive([]byte(secret), "test") }

// startNodes starts three servers that form a cluster.
func startNodes(t *testing.T, change func(i int, o *Options)) (nodes [3]*Server) {
	t.Helper()
	peers := []string{freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)}
	for i := range nodes {
		opt := layout()
		opt.Cluster = &Cluster{Name: "test", Node: "n" + strconv.Itoa(i), Listen: peers[i], Peers: peers, Key: routeKey("one")}
		if change != nil {
			change(i, &opt)
		}
		nodes[i] = start(t, opt)
	}
	return nodes
}

// createStream creates a stream as soon as the cluster has a leader.
func createStream(t *testing.T, s *Server, cfg jetstream.StreamConfig) jetstream.JetStream {
	t.Helper()
	c, err := s.ConnectNodes("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := js.CreateStream(once, cfg)
		cancel()
		if err == nil {
			return js
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestThreeNodesStoreAStreamTogether(t *testing.T) {
	nodes := startNodes(t, nil)
	js := createStream(t, nodes[0], jetstream.StreamConfig{Name: "S", Subjects: []string{"kept"}, Replicas: 3})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if ack, err := js.Publish(ctx, "kept", []byte("one")); err != nil || ack.Sequence != 1 {
		t.Fatal(ack, err)
	}
	nodes[0].Close()
	c, err := nodes[1].ConnectNodes("test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if js, err = jetstream.New(c); err != nil {
		t.Fatal(err)
	}
	for { // until the two others have a leader
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		ack, err := js.Publish(once, "kept", []byte("two"))
		cancel()
		if err == nil && ack.Sequence >= 2 {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if otherNodes(nodes[1]) != 1 {
		t.Errorf("%d nodes are connected to the second one", otherNodes(nodes[1]))
	}
}

func TestClientsDoNotReachTheTrafficBetweenNodes(t *testing.T) {
	var logins sync.Map
	nodes := startNodes(t, func(_ int, o *Options) {
		login := o.Login
		o.Login = func(in Login) Grant {
			logins.Store(in.User, true)
			if in.User == "intruder" {
				return Grant{OK: true, Name: "intruder", Account: nodesAccount}
			}
			return login(in)
		}
	})
	inner, err := nodes[0].ConnectNodes("test")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	own, err := nodes[0].Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	between, raw := follow(t, inner, ">"), follow(t, own, "raw.*.live")
	anybody := dial(t, nodes[0])
	say(t, anybody.Conn, "parley.log.x.0", "as if a frame")
	say(t, anybody.Conn, "a.s1.live", "of a client")
	if m := next(t, raw); string(m.Data) != "of a client" {
		t.Fatalf("%s", m.Data)
	}
	say(t, own, "end", "main")
	other, err := nodes[0].ConnectNodes("other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	say(t, other, "end", "nodes")
	if m := next(t, between); string(m.Data) != "nodes" {
		t.Fatalf("%s arrived between the nodes", m.Data)
	}
	if c, err := nats.Connect(nodes[0].URL(), nats.UserInfo("intruder", ""), nats.NoReconnect(), nats.Timeout(30*time.Second)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a login to the account of the nodes: %v", err)
		if err == nil {
			c.Close()
		}
	}
}

// Each node publishes to its own clients. A message of another node would show them an event twice.
func TestClientsOfDifferentNodesAreApart(t *testing.T) {
	nodes := startNodes(t, nil)
	reader := dial(t, nodes[1])
	got := follow(t, reader.Conn, "a.s1.live")
	for i, text := range []string{"of the other node", "of its own node"} {
		own, err := nodes[i].Connect("test")
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		say(t, own, "out.s1.live", text)
	}
	if m := next(t, got); string(m.Data) != "of its own node" {
		t.Fatalf("%s", m.Data)
	}
}

func TestNodesWithoutTheKeyAreRefused(t *testing.T) {
	var out lines
	nodes := startNodes(t, func(i int, o *Options) {
		if i == 2 {
			o.Cluster.Key = routeKey("two")
			o.Logger = slog.New(slog.NewTextHandler(&out, nil))
		}
	})
	for end := time.Now().Add(60 * time.Second); otherNodes(nodes[0]) != 1 || !out.contain("TLS route handshake error"); {
		if time.Now().After(end) {
			t.Fatalf("the first node has %d routes", otherNodes(nodes[0]))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := otherNodes(nodes[2]); n != 0 {
		t.Errorf("the node with another key has %d routes", n)
	}
	config, err := routeTLS(routeKey("two"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := routeTLS(routeKey("one"))
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]*tls.Config{
		"a client without a certificate":  {RootCAs: config.RootCAs, ServerName: config.ServerName, MinVersion: tls.VersionTLS13},
		"a client with a wrong one":       {RootCAs: config.RootCAs, ServerName: config.ServerName, Certificates: other.Certificates, MinVersion: tls.VersionTLS13},
		"a client that expects another":   other,
		"a client with an older protocol": {RootCAs: config.RootCAs, ServerName: config.ServerName, Certificates: config.Certificates, MaxVersion: tls.VersionTLS12},
	} {
		if err := handshake(config, client); err == nil {
			t.Errorf("%s gets through", name)
		}
	}
	same, err := routeTLS(routeKey("two"))
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(config, same); err != nil {
		t.Errorf("a node with the key: %v", err)
	}
}

func (l *lines) contain(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// handshake connects a client with a server and returns the first error of either.
func handshake(server, client *tls.Config) error {
	a, b := net.Pipe()
	errs := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		errs <- err
		a.Close()
	}()
	c := tls.Client(b, client)
	err := c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	b.Close()
	return errors.Join(err, <-errs)
}

func TestNodesBeyondThisMachineNeedAKey(t *testing.T) {
	for _, c := range []struct {
		peer string
		key  []byte
		ok   bool
	}{
		{"10.0.0.1:7001", nil, false},
		{"db.example:7001", nil, false},
		{"127.0.0.1:7001", nil, true},
		{"localhost:7001", nil, true},
		{"10.0.0.1:7001", routeKey("one"), true},
		{"10.0.0.1:7001", []byte("short"), false},
		{"10.0.0.1", routeKey("one"), false},
	} {
		err := Options{Addr: "127.0.0.1:0", Dir: "d", Cluster: &Cluster{Name: "c", Node: "n", Listen: "127.0.0.1:7000", Peers: []string{"127.0.0.1:7000", c.peer}, Key: c.key}}.Validate()
		if (err == nil) != c.ok {
			t.Errorf("%s with a key of %d bytes: %v", c.peer, len(c.key), err)
		}
	}
	if err := (Options{Addr: "127.0.0.1:0", Dir: "d", Cluster: &Cluster{Listen: "127.0.0.1:0"}}).Validate(); err == nil || !strings.Contains(err.Error(), "name") {
		t.Error(err)
	}
}

// A server that is gone for good is removed, and a new one at its address stores what it had stored.
func TestANewServerTakesThePlaceOfOneThatIsRemoved(t *testing.T) {
	t.Parallel() // it waits for elections
	var last Options
	nodes := startNodes(t, func(i int, o *Options) {
		if i == 2 {
			last = *o
		}
	})
	js := createStream(t, nodes[0], jetstream.StreamConfig{Name: "S", Subjects: []string{"kept"}, Replicas: 3})
	nodes[2].Close()
	place := *last.Cluster
	place.Node = "n3"
	last.Cluster, last.Dir = &place, t.TempDir()
	start(t, last)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	current := func(name string) bool {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		s, err := js.Stream(once, "S")
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		for _, r := range s.CachedInfo().Cluster.Replicas {
			if r.Name == name && r.Current && !r.Offline {
				return true
			}
		}
		return s.CachedInfo().Cluster.Leader == name
	}
	if err := nodes[0].RemoveNode(ctx, "n2"); err != nil {
		t.Fatal(err)
	}
	for !current("n3") {
		if ctx.Err() != nil {
			t.Fatal("the new server does not store the stream")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := nodes[0].RemoveNode(ctx, "nobody"); err == nil {
		t.Error("a server that does not exist was removed")
	}
}

// otherNodes returns how many other nodes are connected to a server.
func otherNodes(s *Server) int {
	all, err := s.nats.Routez(nil)
	if err != nil {
		return 0
	}
	ids := map[string]bool{}
	for _, r := range all.Routes {
		ids[r.RemoteID] = true
	}
	return len(ids)
}
