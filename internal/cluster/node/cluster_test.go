package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/session"
)

const partitions = 3

// limit is how long tests wait for something that happens at once on an idle machine.
const limit = 3 * time.Minute

// member is a node of a test.
type member struct {
	*Node
	port     *clustertest.Port
	sessions *session.Sessions
	hub      *hub.Hub
	journal  *journal.Journal
	cancel   context.CancelFunc
	done     chan struct{}
	dir      string
	local    *artifact.Local
	agents   *agentpool.Registry
	pool     *agentpool.Pool
	peer     *testPeer
	runner   *agentpool.Runner

	mu   sync.Mutex
	took []chat.SessionID
	lost int

	failed func(error) // gets the error with which the node ends; nil means that it must not
	before func()      // called before the runner learns of a turn that begins; may be nil
}

// committed tells the runner of stored events.
func (m *member) committed(events []chat.Event) {
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before != nil && slices.ContainsFunc(events, func(e chat.Event) bool { _, ok := e.Body.(chat.TurnStarted); return ok }) {
		before()
	}
	m.runner.Committed(events)
}

// testCluster is the nodes of a test.
type testCluster struct {
	t       *testing.T
	log     *clustertest.Log
	net     *clustertest.Network
	members [3]*member
	change  func(*Options) // of each node that is started; may be nil
}

// newCluster starts three nodes and waits until each partition has its usual owner: partition 0 node 0, and so on.
func newCluster(t *testing.T) *testCluster {
	t.Helper()
	return newClusterWith(t, nil)
}

// newClusterWith is newCluster with other options of the nodes.
func newClusterWith(t *testing.T, change func(*Options)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, change: change, log: clustertest.New(1, partitions, clustertest.Faults{Delay: time.Millisecond}), net: clustertest.NewNetwork(ErrNoNode)}
	for i := range c.members {
		c.start(i, t.TempDir())
	}
	c.settle()
	for p, m := range c.members {
		for m.opt.MayOwn == nil && !m.Status()[p].Owns { // on a busy machine a node may have started late
			for _, other := range c.members {
				_ = other.parts[p].get().HandOver(t.Context(), m.Name()) // fails if it is not the owner
			}
			c.settle()
		}
	}
	return c
}

// start starts a node over a data folder.
func (c *testCluster) start(i int, dir string) {
	c.t.Helper()
	j, err := journal.Open(filepath.Join(dir, "store"), journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{dir: dir, journal: j, hub: hub.New(j, hub.Options{}), done: make(chan struct{})}
	for id, blocks := range j.OpenBlocks() {
		m.hub.Restore(id, blocks)
	}
	if m.local, err = artifact.Open(filepath.Join(dir, "artifacts"), artifact.Options{}); err != nil {
		c.t.Fatal(err)
	}
	name := fmt.Sprint("n", i)
	m.port = c.net.Port(name, c.log.View(name))
	opt := Options{
		Cluster: "c1", Name: name, Partitions: partitions, Journal: j, Hub: m.hub, Files: m.local,
		Rank:      func(p int) int { return (i - p + 3) % 3 },
		Trim:      cluster.TrimRule{Nodes: 3},
		Heartbeat: 100 * time.Millisecond, Takeover: 1500 * time.Millisecond,
		TookOver: func(ids []chat.SessionID, handover bool) {
			m.runner.TakeOver(ids, handover)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.took = append(m.took, ids...)
		},
		Lost: func(of func(chat.SessionID) bool) {
			m.runner.Release(of)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lost++
		},
	}
	if c.change != nil {
		c.change(&opt)
	}
	m.Node = New(opt)
	m.pool = agentpool.NewPool(agentpool.PoolOptions{})
	m.pool.Connect(m.Node)
	m.peer = &testPeer{Pool: m.pool}
	m.SetPeer(m.peer)
	m.agents = agentpool.NewRegistry(m.pool)
	m.runner = agentpool.NewRunner(m.agents, agentpool.Options{Grace: time.Millisecond, Wait: true})
	m.sessions = m.NewSessions(session.Options{
		Artifacts: m.Files(), Observers: []session.Observer{{Committed: m.committed, Erased: m.runner.Erased}},
	})
	m.runner.Attach(m.sessions)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	var tasks sync.WaitGroup
	tasks.Go(func() {
		if err := m.Run(ctx, m.port.Log, m.port); err != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.failed == nil {
				c.t.Errorf("%s: %v", name, err)
				return
			}
			m.failed(err)
		}
	})
	tasks.Go(func() { _ = m.sessions.Run(ctx) })
	tasks.Go(func() { _ = m.runner.Run(ctx) })
	tasks.Go(func() { m.pool.Share(ctx) })
	go func() {
		tasks.Wait()
		close(m.done)
	}()
	c.members[i] = m
	c.t.Cleanup(func() { c.stop(i) })
}

// stop ends a node as a kill does: it answers nothing any more.
func (c *testCluster) stop(i int) {
	m := c.members[i]
	if m.cancel == nil {
		return
	}
	m.port.Cut(true)
	m.cancel()
	<-m.done
	m.cancel = nil
	m.hub.Close(nil)
	if err := m.journal.Close(); err != nil {
		c.t.Error(err)
	}
}

// settle waits until each partition has one owner that all running nodes know.
func (c *testCluster) settle() {
	c.t.Helper()
	end := time.Now().Add(limit)
	for p := range partitions {
		for {
			names := map[string]int{}
			running, owners := 0, 0
			for _, m := range c.members {
				if m.cancel == nil || m.port.IsCut() {
					continue
				}
				running++
				st := m.Status()[p]
				names[st.Copy.Claim.Node]++
				if st.Owns {
					owners++
				}
			}
			if len(names) == 1 && names[""] == 0 && owners == 1 && running > 0 {
				break
			}
			if time.Now().After(end) {
				c.t.Fatalf("partition %d has no owner that all nodes know: %v", p, names)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// owner returns the number of the node that owns a session, as soon as there is one.
func (c *testCluster) owner(id chat.SessionID) int {
	c.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for i, m := range c.members {
			if m.cancel != nil && m.Owns(id) {
				return i
			}
		}
	}
	c.t.Fatal("no node owns the session")
	return 0
}

var ada = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "ada"}, Scopes: []chat.Scope{chat.ScopeUser, chat.ScopeAgent}}

// session creates a session that node i does not own.
func (c *testCluster) session(notOwner int) chat.SessionID {
	c.t.Helper()
	for n := 0; ; n++ {
		id := chat.SessionID(fmt.Sprintf("s-%d-%d", notOwner, n))
		if c.members[notOwner].Owns(id) {
			if n > 100 { // on a busy machine one node may have got all partitions
				if err := c.members[notOwner].HandOver(c.t.Context()); err != nil {
					c.t.Fatal(err)
				}
			}
			continue
		}
		_, created, err := c.members[notOwner].sessions.Create(c.t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent})
		if err != nil {
			c.t.Fatal(err)
		}
		if created {
			return id
		}
	}
}

func text(s string) chat.Draft { return chat.NewDraft(chat.UserMessage{Text: s}) }

// texts returns the messages of a session as a node has them.
func (c *testCluster) texts(i int, id chat.SessionID) string {
	c.t.Helper()
	var all []string
	for e, err := range c.members[i].sessions.Events(c.t.Context(), ada, id, chat.Range{}) {
		if err != nil {
			c.t.Fatal(err)
		}
		switch b := e.Body.(type) {
		case chat.UserMessage:
			all = append(all, b.Text)
		case chat.AgentText:
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, " ")
}

// eventually waits until look returns want.
func eventually(t *testing.T, want string, look func() string) {
	t.Helper()
	end := time.Now().Add(limit)
	for look() != want {
		if time.Now().After(end) {
			t.Fatalf("%q, want %q", look(), want)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
