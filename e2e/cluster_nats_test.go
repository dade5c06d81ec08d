package e2e

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
)

// natsCluster starts three NATS servers with JetStream and a login, and returns their addresses.
func natsCluster(t *testing.T) []string {
	t.Helper()
	var clients, routes []string
	for range 3 {
		clients, routes = append(clients, freeport.Addr(t)), append(routes, freeport.Addr(t))
	}
	port := func(addr string) (n int) {
		if _, err := fmt.Sscanf(addr[strings.LastIndex(addr, ":")+1:], "%d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 3 {
		opt := &server.Options{
			ServerName: fmt.Sprint("nats-", i), Host: "127.0.0.1", Port: port(clients[i]), NoSigs: true, NoLog: true, MaxPayload: 24 << 20,
			JetStream: true, StoreDir: filepath.Join(t.TempDir(), fmt.Sprint(i)), SyncAlways: true, Username: "parley", Password: "pw",
			Cluster: server.ClusterOpts{Name: "external", Host: "127.0.0.1", Port: port(routes[i])},
		}
		for _, r := range routes {
			opt.Routes = append(opt.Routes, &url.URL{Scheme: "nats-route", Host: r})
		}
		s, err := server.NewServer(opt)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
	}
	return clients
}

// Three nodes use a NATS cluster of its own. One of them is killed; the others go on.
func TestNodesUseAnExternalNATSCluster(t *testing.T) {
	t.Parallel()
	addrs := natsCluster(t)
	c := newNodes(t, "", []string{"off", "off", "off"})
	c.args = []string{"--cluster-nats", "nats://parley:pw@" + strings.Join(addrs, ",nats://parley:pw@")}
	c.startAll()
	var id chat.SessionID
	owner := 0
	for n := 0; ; n++ {
		id = chat.SessionID(fmt.Sprint("ext-", n))
		if _, err := c.all[0].connect("").Create(t.Context(), client.NewSession{ID: id, Agent: "none"}); err != nil {
			t.Fatal(err)
		}
		if owner = c.owner(0, id); owner > 0 {
			break
		}
	}
	say := c.all[0].connect("")
	if _, err := say.Send(t.Context(), id, chat.UserMessage{Text: "before"}, "1"); err != nil {
		t.Fatal(err)
	}
	c.all[owner].kill()
	until(t, "another node takes the session over", func() bool {
		_, err := say.Send(t.Context(), id, chat.UserMessage{Text: "after"}, "2")
		return err == nil
	})
	c.start(owner)
	c.ready()
	until(t, "the node that was killed has both messages", func() bool {
		_, body, _ := c.all[owner].do(call{method: "GET", path: "/parley/v1/sessions/" + string(id) + "/events"})
		return strings.Contains(body, "before") && strings.Contains(body, "after")
	})
	// A busy node may be too late for the receipt and remove the session afterwards. There is one receipt, so another session is erased then.
	var receipt chat.Receipt
	n := 0
	until(t, "all nodes have removed a session in time", func() bool {
		var err error
		if receipt, err = say.Delete(t.Context(), id); err == nil && len(receipt.Pending) == 0 {
			return true
		}
		switch chat.CodeOf(err) {
		case chat.Unavailable:
			return false
		case "", chat.Gone:
		default:
			t.Fatal(err)
		}
		n++
		id = chat.SessionID(fmt.Sprint("ext-again-", n))
		if _, err := say.Create(t.Context(), client.NewSession{ID: id, Agent: "none"}); err != nil {
			t.Fatal(err)
		}
		return false
	})
	if len(receipt.Nodes) != 3 || !strings.Contains(receipt.Note, "NATS server") {
		t.Errorf("%+v", receipt)
	}
}
