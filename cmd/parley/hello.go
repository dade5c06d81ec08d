package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// sayHello tells the other nodes about this one, and takes what they tell, until ctx ends.
func (m *member) sayHello(ctx context.Context, conn *nats.Conn) error {
	subject := "parley.hello." + m.name
	say := func() {
		b, err := json.Marshal(m.hello())
		if err == nil {
			err = conn.Publish(subject, b)
		}
		if err != nil && ctx.Err() == nil {
			m.log.Debug("a message to the other nodes could not be sent", "err", err)
		}
	}
	_, err := conn.Subscribe(subject, func(msg *nats.Msg) {
		var h node.Hello
		if err := json.Unmarshal(msg.Data, &h); err != nil || h.Node == "" {
			m.log.Warn("a message of another node cannot be read; do all nodes run the same version?", "err", err)
			return
		}
		h.Heard = time.Now()
		m.mu.Lock()
		known := m.heard[h.Node].Node != ""
		m.heard[h.Node] = h
		m.mu.Unlock()
		if !known {
			say() // a node that starts should not wait
		}
	})
	if err != nil {
		return fmt.Errorf("listen to the other nodes: %w", err)
	}
	go func() {
		for {
			say()
			if sleep.For(ctx, node.HelloEvery) != nil {
				return
			}
		}
	}()
	return nil
}

// shortLog is the length of a log up to which an empty node reads all of it.
const shortLog = 10_000

// hello is what this node says of itself.
func (m *member) hello() node.Hello {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := node.Hello{Node: m.id, Addr: m.cfg.ClusterListen, Cluster: m.state.Cluster, FromEmpty: m.state.FromEmpty, Damaged: m.state.Damaged, State: m.why}
	if m.serving != nil {
		h.Whole = m.serving.node.Following()
		for _, st := range m.serving.node.Status() { // a copy is faster than a long log
			h.FromEmpty = h.FromEmpty && st.Copy.Pos < shortLog
		}
	}
	return h
}

// others returns the last hello of each node that is present.
func (m *member) others() (all []node.Hello) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.heard {
		if time.Since(h.Heard) < node.HelloLimit {
			all = append(all, h)
		}
	}
	return all
}

// foreign returns an error while most of the nodes that are heard belong to another cluster.
func (m *member) foreign() error { return node.Foreign(m.hello(), m.others(), len(m.peers)) }

// helloWait is how long a node waits for the first hello of another node before it uses the log.
const helloWait = time.Second

// settle returns when this node may use the log of its cluster: not while most nodes belong to another one.
func (m *member) settle(ctx context.Context) error {
	for begun := time.Now(); ; {
		if m.foreign() == nil && (len(m.others()) >= len(m.peers)/2 || time.Since(begun) > helloWait) {
			return nil
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// foreignLimit is how long most nodes may belong to another cluster: those of this one may be starting.
const foreignLimit = 10 * time.Second

// watch returns an error when most nodes belong to another cluster, and nil when ctx ends.
func (m *member) watch(ctx context.Context) error {
	for since := time.Now(); ; {
		err := m.foreign()
		switch {
		case err == nil:
			since = time.Now()
		case time.Since(since) > foreignLimit:
			return err
		}
		if sleep.For(ctx, node.HelloEvery) != nil {
			return nil
		}
	}
}
