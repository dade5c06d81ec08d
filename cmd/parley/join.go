package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/cluster/datafolder"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/terminal"
	"github.com/parley-hq/parley/internal/wire"
)

// join returns when the data folder has a store that can be opened. A folder that belongs to no cluster yet begins one or becomes
// a part of that of the other nodes; a store that is not usable is replaced by a copy.
func (m *member) join(ctx context.Context, a *auth.Auth, out io.Writer) error {
	if err := m.folder.Recover(); err != nil {
		return fmt.Errorf("finish the copy of the store in %s: %w", m.cfg.Data, err)
	}
	state, there, err := m.folder.Membership()
	switch {
	case err != nil:
		return err
	case there && state.Cluster != "" && state.NeedsCopy == "":
		m.set(state, nil, "")
		return nil
	case !there && m.folder.HasStore():
		return fmt.Errorf("%s has the sessions of a single server. To make it the first node of a cluster: parley cluster init --data %s. To join the cluster of other nodes, start with an empty folder", m.cfg.Data, m.cfg.Data)
	case !there: // from now on it is known that the store was not one of a single server
		state.NewDisk = true
		if err := m.folder.SetMembership(state); err != nil {
			return err
		}
	}
	m.set(state, nil, "it looks for the other nodes")
	stop, err := m.serveWaiting(ctx, a, out)
	if err != nil {
		return err
	}
	defer stop()
	if _, _, err := m.connect(ctx); err != nil {
		return err
	}
	for {
		plan := node.MakePlan(m.hello(), m.others(), m.peers)
		switch plan.Step {
		case node.Begin:
			state = datafolder.Membership{Cluster: newClusterID(), FromEmpty: true}
			m.log.Info("all nodes are empty; beginning a new cluster", "cluster", state.Cluster)
		case node.Adopt:
			state = datafolder.Membership{Cluster: plan.Cluster, FromEmpty: true, NewDisk: state.NewDisk}
			m.log.Info("this node is part of the cluster of the others", "cluster", state.Cluster)
		case node.Copy:
			if err := m.copyStore(ctx, state, plan); err == nil {
				return nil
			} else if ctx.Err() == nil {
				m.log.Warn("the store of another node could not be copied; trying again", "err", err)
				m.set(state, nil, "the store of another node could not be copied: "+err.Error())
			}
			if err := sleep.For(ctx, time.Second); err != nil {
				return err
			}
			continue
		default:
			m.set(state, nil, plan.Why)
			if err := sleep.For(ctx, node.HelloEvery/2); err != nil {
				return err
			}
			continue
		}
		m.set(state, nil, "")
		return m.folder.SetMembership(state)
	}
}

// copyStore replaces the store by that of another node.
func (m *member) copyStore(ctx context.Context, state datafolder.Membership, plan node.Plan) error {
	_, conn, err := m.connect(ctx)
	if err != nil {
		return err
	}
	t := node.NewNATS(conn, nil, plan.Cluster, m.id, m.log)
	stop, err := t.Listen(0, func([]byte, func([]byte)) {}, func([]byte) {})
	if err != nil {
		return err
	}
	defer stop()
	var errs []error
	for _, from := range plan.From {
		begun := time.Now()
		total, err := m.copyFrom(ctx, t, state, plan, from)
		if err == nil {
			m.copies.Inc()
			m.log.Info("the store of another node was copied", "node", from, "bytes", total, "took", time.Since(begun).Round(time.Millisecond))
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// copyFrom replaces the store by that of one node. It returns the size of that store.
func (m *member) copyFrom(ctx context.Context, t *node.NATS, state datafolder.Membership, plan node.Plan, from string) (total int64, err error) {
	dir, err := m.folder.Begin()
	if err != nil {
		return 0, err
	}
	room := func(bytes int64) error {
		total = bytes
		if free, err := journal.Free(dir); err == nil && uint64(bytes) > free { // an error means that the file system does not report it
			return fmt.Errorf("the store of node %s has %s, and %s has %s free", from, terminal.Size(bytes), m.cfg.Data, terminal.Size(int64(free)))
		}
		return nil
	}
	m.set(state, nil, "it copies the store of node "+from)
	if err := node.FetchStore(ctx, t, from, dir, room, func(done, total int64) {
		m.set(state, nil, fmt.Sprintf("it copies the store of node %s: %s of %s", from, terminal.Size(done), terminal.Size(total)))
	}); err != nil {
		return total, err
	}
	// Files that are missing or do not fit each other are noticed here, while the old store is still in place.
	j, err := journal.OpenReadOnly(dir, journal.Options{Logger: m.log})
	if err != nil {
		return total, err
	}
	if err := j.Close(); err != nil {
		return total, err
	}
	state = datafolder.Membership{Cluster: plan.Cluster, FromEmpty: plan.FromEmpty, Copied: true, NewDisk: state.NewDisk}
	if err := m.folder.Complete(state); err != nil {
		return total, err
	}
	if err := m.folder.Recover(); err != nil {
		return total, err
	}
	m.set(state, nil, "")
	return total, nil
}

// serveWaiting answers requests while there is no store: /healthz says that the process runs, everything else why it cannot
// answer yet.
func (m *member) serveWaiting(ctx context.Context, a *auth.Auth, out io.Writer) (stop func(), err error) {
	why := func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		return server.NotReady("this node is not a part of its cluster yet: " + m.why)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.copies, m.damage)
	s, err := server.New(server.Options{
		Node: m.id, Listener: m.listener.borrow(), CertFile: m.cfg.TLSCert, KeyFile: m.cfg.TLSKey, TrustedProxy: m.cfg.TrustedProxy,
		Auth: a, Logger: m.log, Registry: registry, Grace: time.Second,
		Ready: func(context.Context) error { return why() },
		Started: func(addr net.Addr) {
			fmt.Fprintf(out, "Parley %s listens at %s and waits to join its cluster (data in %s)\n", version, m.cfg.url(addr), m.cfg.Data)
		},
	})
	if err != nil {
		return nil, err
	}
	x := edge.HTTP{Dialect: "native", Caller: a.Caller, Log: m.log}
	s.Handle(x.Route("GET /parley/v1/cluster", x.Reply(func(_ *http.Request, c chat.Caller) (any, error) {
		if err := mayAdminister(a, c); err != nil {
			return nil, err
		}
		return m.waitingStatus(), nil
	})))
	s.Handle(wire.Route{Pattern: "/", Public: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.WriteError(w, r, chat.Errorf(chat.Unavailable, "%s", why()))
	})})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			m.log.Warn("not all requests ended in time", "err", err)
		}
	}, nil
}

// waitingStatus is the state of the cluster as a node sees it that is not a part of it yet.
func (m *member) waitingStatus() client.Cluster {
	own := m.hello()
	res := client.Cluster{Node: m.id, Nodes: []client.ClusterNode{{ID: own.Node, Version: version, State: own.State}}, Partitions: []client.ClusterPartition{}}
	for _, h := range m.others() {
		res.Nodes = append(res.Nodes, client.ClusterNode{ID: h.Node, State: h.State})
	}
	sortNodes(&res)
	return res
}
