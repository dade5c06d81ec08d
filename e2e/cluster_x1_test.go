package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
)

// x1Message is what clients of x1 read.
type x1Message struct {
	Sequence chat.Seq `json:"sequence"`
	Type     string   `json:"type"`
	Payload  struct {
		Text string `json:"text"`
	} `json:"payload"`
	Dropped string `json:"dropped"`
	Error   *struct {
		Reason chat.Code `json:"reason"`
	} `json:"error"`
}

// askX1 sends a message on NATS and returns the reply. It repeats the message while the session is unavailable; input has an id, with which it is
// stored once.
func askX1(t *testing.T, conn *nats.Conn, subject string, message map[string]any) (reply x1Message) {
	t.Helper()
	if strings.HasSuffix(subject, ".input") {
		message["client_id"] = rand.Text()
	}
	b, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "an answer on "+subject, func() bool {
		m, err := conn.Request(subject, b, time.Minute)
		if err != nil {
			t.Fatal(subject, err)
		}
		reply = x1Message{}
		if err := json.Unmarshal(m.Data, &reply); err != nil || reply.Error != nil && reply.Error.Reason != chat.Unavailable {
			t.Fatalf("%s: %s", subject, m.Data)
		}
		return reply.Error == nil
	})
	return reply
}

// x1 clients of three nodes write to the same sessions. Each of them, and the archive of each node, has all events once and in
// order.
func TestX1ClientsOfAllNodesSeeTheSameEvents(t *testing.T) {
	t.Parallel()
	c := startNodesWith(t, "", []string{freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var conns [3]*nats.Conn
	for i := range conns {
		until(t, "NATS listens", func() bool {
			conn, err := nats.Connect("nats://"+c.buses[i], nats.Timeout(30*time.Second))
			conns[i] = conn
			return err == nil
		})
		t.Cleanup(conns[i].Close)
	}
	ids := []string{"xa", "xb", "xc", "xd", "xe"} // of all partitions
	var events [3]*nats.Subscription
	for i, conn := range conns {
		sub, err := conn.SubscribeSync("x1.session.*.events")
		if err == nil {
			err = conn.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		events[i] = sub
	}
	for i := range conns { // a request without an answer shows that x1 is not ready yet
		until(t, "x1 is ready", func() bool {
			_, err := conns[i].Request("x1.session.none.history", []byte(`{}`), time.Second)
			return err == nil
		})
	}
	// A sidecar of node 1 publishes without ids; people write at all nodes.
	const rounds = 6
	last := map[string]chat.Seq{}
	for n := range rounds {
		for _, id := range ids {
			for i, conn := range conns {
				r := askX1(t, conn, "x1.session."+id+".input", map[string]any{"type": "user.message", "payload": map[string]any{"text": fmt.Sprintf("%d at %d", n, i)}})
				if r.Sequence <= last[id] {
					t.Fatalf("session %s: sequence %d after %d", id, r.Sequence, last[id])
				}
				last[id] = r.Sequence
			}
			r := askX1(t, conns[1], "x1.session."+id+".events", map[string]any{"session_id": id, "sequence": n, "type": "agent.text", "payload": map[string]any{"text": fmt.Sprint("answer ", n)}})
			last[id] = r.Sequence
		}
	}
	for i := range conns {
		got := map[string]chat.Seq{}
		for done := 0; done < len(ids); {
			m, err := events[i].NextMsg(time.Minute)
			if err != nil {
				t.Fatalf("node %d: %v after %v, want %v", i, err, got, last)
			}
			var e x1Message
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
			id := strings.Split(m.Subject, ".")[2]
			if e.Sequence != got[id]+1 {
				t.Fatalf("node %d, session %s: event %d after %d", i, id, e.Sequence, got[id])
			}
			if got[id] = e.Sequence; e.Sequence == last[id] {
				done++
			}
		}
	}
	// The archive of each node has them too.
	total := 0
	for _, n := range last {
		total += int(n)
	}
	archived := func(i, total int) {
		t.Helper()
		js, err := jetstream.New(conns[i])
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the archive has all events", func() bool {
			stream, err := js.Stream(ctx, "X1_ARCHIVE")
			if err != nil {
				return false
			}
			if n := stream.CachedInfo().State.Msgs; n > uint64(total) {
				t.Fatalf("the archive of node %d has %d events of %d", i, n, total)
			} else {
				return n == uint64(total)
			}
			return false
		})
	}
	for i := range conns {
		archived(i, total)
	}
	// The sidecar restarts at another node and sends the end of its stream again, then comes back to the first one.
	again := func(conn *nats.Conn, from, to int) (stored int) {
		for n := from; n < to; n++ {
			r := askX1(t, conn, "x1.session.xa.events", map[string]any{"session_id": "xa", "sequence": n - from, "type": "agent.text", "payload": map[string]any{"text": fmt.Sprint("answer ", n)}})
			if r.Dropped == "" {
				stored++
			}
		}
		return stored
	}
	if n := again(conns[2], 2, rounds+1); n != 1 {
		t.Errorf("%d events of a repeated stream were stored at another node, want the new one", n)
	}
	archived(1, total+1) // a node compares with what it has itself
	if n := again(conns[1], 3, rounds+2); n != 1 {
		t.Errorf("%d events of a repeated stream were stored at the first node, want the new one", n)
	}
	// An erased session leaves the archives of all nodes.
	var receipt chat.Receipt
	until(t, "session xb is erased", func() (erased bool) {
		var err error
		receipt, err = c.all[2].connect("").Delete(ctx, "xb")
		switch code := chat.CodeOf(err); code {
		case "", chat.Unavailable:
			return err == nil
		case chat.Gone: // by an attempt whose receipt was not read
			receipt.Pending = c.ids[:]
			return true
		default:
			t.Fatal(err)
			return false
		}
	})
	for i, conn := range conns {
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(ctx, "X1_ARCHIVE")
		if err != nil {
			t.Fatal(err)
		}
		removed := func() bool {
			_, err := stream.GetLastMsgForSubject(ctx, "x1.session.xb.archive")
			return errors.Is(err, jetstream.ErrMsgNotFound)
		}
		if len(receipt.Pending) > 0 {
			until(t, fmt.Sprintf("the archive of node %d has nothing of session xb", i), removed)
		} else if !removed() {
			t.Errorf("the archive of node %d has something of session xb", i)
		}
	}
	// A presence message reaches the clients of all nodes once.
	var presence [3]*nats.Subscription
	for i, conn := range conns {
		var err error
		if presence[i], err = conn.SubscribeSync("x1.session.xa.presence"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"first", "second"} {
		if err := conns[0].Publish("x1.session.xa.presence", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for i, sub := range presence {
		for _, want := range []string{"first", "second"} {
			if m, err := sub.NextMsg(time.Minute); err != nil || string(m.Data) != want {
				t.Fatalf("node %d: want the presence message %q, got %v %v", i, want, m, err)
			}
		}
	}
	// A turn of an agent of the server, written at one node, is followed at another: pieces and events.
	delta, err := conns[0].SubscribeSync("x1.session.talk.delta")
	if err != nil {
		t.Fatal(err)
	}
	if err := conns[0].Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.all[1].connect("").Create(ctx, client.NewSession{ID: "talk", Agent: "demo"}); err != nil {
		t.Fatal(err)
	}
	askX1(t, conns[2], "x1.session.talk.input", map[string]any{"type": "user.message", "payload": map[string]any{"text": "/stream 20 100"}})
	if _, err := delta.NextMsg(time.Minute); err != nil {
		t.Errorf("no piece of the answer: %v", err)
	}
}

// A client of a node that has lost the others is disconnected and comes back when there is a node that can serve it.
func TestX1ClientsLeaveANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	c := startNodesWith(t, "", []string{freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)})
	conn, err := nats.Connect("nats://"+strings.Join(c.buses, ",nats://"), nats.DontRandomize(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.Timeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stored := func(key string) bool {
		m, err := conn.Request("x1.session.left.input", fmt.Appendf(nil, `{"type":"user.message","client_id":%q,"payload":{"text":"hello"}}`, key), 10*time.Second)
		var reply x1Message
		return err == nil && json.Unmarshal(m.Data, &reply) == nil && reply.Sequence > 0
	}
	until(t, "the first message is stored", func() bool { return stored("one") })
	node := slices.Index(c.buses, conn.ConnectedAddr())
	for i, p := range c.all {
		if i != node {
			p.kill()
		}
	}
	until(t, "the client is disconnected", func() bool { return !conn.IsConnected() })
	if code, _, _ := c.all[node].probe(); code == 0 {
		t.Fatal("the node has ended")
	}
	for i := range c.all {
		if i != node {
			c.start(i)
		}
	}
	until(t, "the second message is stored", func() bool { return stored("two") })
}
