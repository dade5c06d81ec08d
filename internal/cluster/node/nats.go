package node

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/cluster/natslog"
)

// NATS is a Transport over core NATS. Heartbeats are those of the log.
type NATS struct {
	*natslog.Log
	conn    *nats.Conn
	log     *slog.Logger
	cluster string
	node    string
	inbox   string // prefix of the reply subjects

	mu      sync.Mutex
	next    uint64
	waiting map[string]chan *nats.Msg // by reply subject
}

// NewNATS returns a transport over a connection whose own messages are not delivered to it. The caller closes it later.
func NewNATS(conn *nats.Conn, log *natslog.Log, cluster, node string, logger *slog.Logger) *NATS {
	return &NATS{
		Log: log, conn: conn, log: logger, cluster: cluster, node: node,
		inbox: fmt.Sprintf("parley.reply.%s.%s.%d.", cluster, node, time.Now().UnixNano()), waiting: map[string]chan *nats.Msg{},
	}
}

func (t *NATS) subject(node string, partition int) string {
	return fmt.Sprintf("parley.node.%s.%s.%d", t.cluster, node, partition)
}

func (t *NATS) all() string { return "parley.all." + t.cluster }

// Request implements Transport.
func (t *NATS) Request(ctx context.Context, node string, partition int, data []byte) (wait func() ([]byte, error)) {
	got := make(chan *nats.Msg, 1)
	t.mu.Lock()
	t.next++
	reply := t.inbox + strconv.FormatUint(t.next, 36)
	t.waiting[reply] = got
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		delete(t.waiting, reply)
		t.mu.Unlock()
	}
	if err := t.conn.PublishRequest(t.subject(node, partition), reply, data); err != nil {
		forget()
		return func() ([]byte, error) { return nil, fmt.Errorf("%w: %w", ErrNoNode, err) }
	}
	return func() ([]byte, error) {
		defer forget()
		select {
		case m := <-got:
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil, ErrNoNode
			}
			return m.Data, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Broadcast implements Transport.
func (t *NATS) Broadcast(data []byte) {
	if err := t.conn.Publish(t.all(), data); err != nil {
		t.log.Debug("a message to the other nodes could not be sent", "err", err)
	}
}

func (t *NATS) one(node string) string { return fmt.Sprintf("parley.one.%s.%s", t.cluster, node) }

// Tell implements Transport.
func (t *NATS) Tell(node string, data []byte) {
	if err := t.conn.Publish(t.one(node), data); err != nil {
		t.log.Debug("a message to another node could not be sent", "node", node, "err", err)
	}
}

// Listen implements Transport.
func (t *NATS) Listen(partitions int, request func(data []byte, reply func([]byte)), heard func(data []byte)) (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // the connection may be closed
		}
	}
	subscribe := func(subject string, f func(*nats.Msg)) {
		if err != nil {
			return
		}
		var s *nats.Subscription
		if s, err = t.conn.Subscribe(subject, f); err == nil {
			subs = append(subs, s)
		}
	}
	subscribe(t.inbox+"*", func(m *nats.Msg) {
		t.mu.Lock()
		got := t.waiting[m.Subject]
		t.mu.Unlock()
		if got != nil {
			got <- m
		}
	})
	for p := range partitions {
		subscribe(t.subject(t.node, p), func(m *nats.Msg) {
			request(m.Data, func(answer []byte) {
				if err := m.Respond(answer); err != nil {
					t.log.Warn("an answer to another node could not be sent", "err", err)
				}
			})
		})
	}
	subscribe(t.all(), func(m *nats.Msg) { heard(m.Data) })
	subscribe(t.one(t.node), func(m *nats.Msg) { heard(m.Data) })
	if err == nil {
		err = t.conn.Flush()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("listen to the other nodes: %w", err)
	}
	return stop, nil
}
