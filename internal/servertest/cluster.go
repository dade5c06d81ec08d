package servertest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/sleep"
)

// Cluster is a cluster of two nodes in the process. One of them owns all partitions; the other one is the [Server]. The log of
// the cluster is kept in memory: a server that is opened again on its folder needs the same Cluster.
type Cluster struct {
	Hold func() // is called before text of the other node is handled, one message after the other; nil means nothing

	log   *clustertest.Log
	other *clustertest.Port // of the node that is the Server
}

// partitions is the number of partitions of a cluster, as in the real server.
const partitions = 3

// NewCluster returns a cluster for Options.
func NewCluster() *Cluster {
	return &Cluster{log: clustertest.New(1, partitions, clustertest.Faults{})}
}

// SetDelay sets how long it takes at most until a node reads what another one has stored.
func (c *Cluster) SetDelay(d time.Duration) { c.log.SetFaults(clustertest.Faults{Delay: d}) }

// CutLog cuts the Server off from the log of the cluster, not from the other node, or connects it again.
func (c *Cluster) CutLog(off bool) { c.other.Log.Cut(off) }

// EachPlace runs a test against one server, and against a node of a cluster that does not own the sessions. Options.Cluster of a
// server in the test is what cluster returns.
func EachPlace(t *testing.T, test func(t *testing.T, cluster func() *Cluster)) {
	t.Helper()
	t.Run("one server", func(t *testing.T) { test(t, func() *Cluster { return nil }) })
	t.Run("another node than the owner", func(t *testing.T) { test(t, NewCluster) })
}

// The names of the nodes.
const (
	ownerName = "owner"
	otherName = "other"
)

// place is where a member is in a cluster.
type place struct {
	name string
	port *clustertest.Port
}

// openCluster opens the node that owns no partition and the owner of all, in this order.
func openCluster(t testing.TB, dir string, opt *Options, erased func(chat.SessionID)) []*member {
	t.Helper()
	net := clustertest.NewNetwork(node.ErrNoNode)
	at := func(name string) *place { return &place{name, net.Port(name, opt.Cluster.log.View(name))} }
	other := at(otherName)
	opt.Cluster.other, other.port.Hold = other.port, opt.Cluster.Hold
	return []*member{
		newMember(t, dir, opt, erased, other),
		newMember(t, filepath.Join(dir, ownerName), opt, func(chat.SessionID) {}, at(ownerName)),
	}
}

// join makes the member a node.
func (m *member) join(in *place) {
	o := node.Options{
		Cluster: "test", Name: in.name, Partitions: partitions, Journal: m.journal, Hub: m.hub, Files: m.files.Local,
		TookOver: m.runner.TakeOver, Lost: m.runner.Release,
		// No other node claims a partition, so the owner need not wait long after a start.
		Heartbeat: 50 * time.Millisecond, Takeover: 100 * time.Millisecond,
	}
	if in.name != ownerName {
		o.MayOwn = func() error { return errors.New("another node owns all partitions") }
	}
	m.node = node.New(o)
	m.node.SetPeer(m.pool)
	m.pool.Connect(m.node)
	m.files.Store = m.node.Files()
	m.runs = append(m.runs,
		func(ctx context.Context) error { return m.node.Run(ctx, in.port.Log, in.port) },
		func(ctx context.Context) error { m.pool.Share(ctx); return nil },
	)
}

// waitForOwner waits until all members hear each other and know that the owner owns all partitions.
func waitForOwner(t testing.TB, members []*member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !settled(members) {
		if sleep.For(ctx, time.Millisecond) != nil {
			t.Fatal("the cluster has no owner after a minute")
		}
	}
}

func settled(members []*member) bool {
	other, owner := members[0].node, members[1].node
	if other.CountPresent() == 0 || owner.CountPresent() == 0 {
		return false
	}
	known := other.Status()
	for i, st := range owner.Status() {
		if !st.Owns || known[i].Copy.Epoch != st.Copy.Epoch {
			return false
		}
	}
	return true
}
