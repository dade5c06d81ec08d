package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
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

// network connects the nodes of a test in memory.
type network struct {
	mu    sync.Mutex
	nodes map[string]*port
}

// port is a node's end of the network.
type port struct {
	net   *network
	name  string
	log   *clustertest.View
	loses func() bool // whether the next broadcast is lost; nil means never

	mu       sync.Mutex
	off      bool
	requests []chan func() // by partition
	all      chan func()
	request  func([]byte, func([]byte))
	heard    func([]byte)
	beat     func(cluster.Heartbeat)
}

func (p *port) cut(off bool) {
	p.mu.Lock()
	p.off = off
	p.mu.Unlock()
	p.log.Cut(off)
}

func (p *port) isOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off
}

func (p *port) Request(ctx context.Context, node string, partition int, data []byte) func() ([]byte, error) {
	p.net.mu.Lock()
	to := p.net.nodes[node]
	p.net.mu.Unlock()
	fail := func(err error) func() ([]byte, error) { return func() ([]byte, error) { return nil, err } }
	if to == nil {
		return fail(ErrNoNode)
	}
	got := make(chan []byte, 1)
	if !p.isOff() && !to.isOff() {
		to.requests[partition] <- func() {
			to.request(data, func(b []byte) {
				if !p.isOff() && !to.isOff() {
					got <- b
				}
			})
		}
	}
	return func() ([]byte, error) {
		select {
		case b := <-got:
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *port) others(f func(*port)) {
	if p.isOff() {
		return
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	for name, to := range p.net.nodes {
		if name != p.name && !to.isOff() {
			f(to)
		}
	}
}

func (p *port) Broadcast(data []byte) {
	if p.loses != nil && p.loses() {
		return
	}
	p.others(func(to *port) { to.all <- func() { to.heard(data) } })
}

func (p *port) SendHeartbeat(h cluster.Heartbeat) {
	p.others(func(to *port) {
		to.mu.Lock()
		beat := to.beat
		to.mu.Unlock()
		if beat != nil {
			beat(h)
		}
	})
}

func (p *port) Heartbeats(f func(cluster.Heartbeat)) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = f
	return func() {}, nil
}

func (p *port) Listen(n int, request func([]byte, func([]byte)), heard func([]byte)) (func(), error) {
	p.request, p.heard = request, heard
	p.all = make(chan func(), 10_000)
	queues := []chan func(){p.all}
	for range n {
		c := make(chan func(), 10_000)
		p.requests = append(p.requests, c)
		queues = append(queues, c)
	}
	for _, c := range queues {
		go func() {
			for f := range c {
				f()
			}
		}()
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.net.nodes[p.name] = p
	return func() {
		p.net.mu.Lock()
		defer p.net.mu.Unlock()
		delete(p.net.nodes, p.name)
	}, nil
}

// member is a node of a test.
type member struct {
	*Node
	port     *port
	sessions *session.Sessions
	hub      *hub.Hub
	journal  *journal.Journal
	cancel   context.CancelFunc
	done     chan struct{}
	dir      string
	local    *artifact.Local

	mu   sync.Mutex
	took []chat.SessionID
	lost int
}

// cell is the nodes of a test.
type cell struct {
	t       *testing.T
	log     *clustertest.Log
	net     *network
	members [3]*member
}

// newCell starts three nodes and waits until each partition has an owner.
func newCell(t *testing.T) *cell {
	t.Helper()
	c := &cell{t: t, log: clustertest.New(1, partitions, clustertest.Faults{Delay: time.Millisecond}), net: &network{nodes: map[string]*port{}}}
	for i := range c.members {
		c.start(i, t.TempDir())
	}
	c.settle()
	return c
}

// start starts a node over a data folder.
func (c *cell) start(i int, dir string) {
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
	m.port = &port{net: c.net, name: name, log: c.log.View(name)}
	m.Node = New(Options{
		Cluster: "c1", Name: name, Partitions: partitions, Journal: j, Hub: m.hub, Files: m.local,
		Rank:      func(p int) int { return (i - p + 3) % 3 },
		Heartbeat: 100 * time.Millisecond, Takeover: 1500 * time.Millisecond,
		TookOver: func(ids []chat.SessionID, _ bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.took = append(m.took, ids...)
		},
		Lost: func(func(chat.SessionID) bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lost++
		},
	})
	m.sessions = session.New(m.Node.Journal(), m.Live(), session.Options{Remote: m.Node, Artifacts: m.Files()})
	m.Attach(m.sessions)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	var tasks sync.WaitGroup
	tasks.Go(func() {
		if err := m.Run(ctx, m.port.log, m.port); err != nil {
			c.t.Errorf("%s: %v", name, err)
		}
	})
	tasks.Go(func() { _ = m.sessions.Run(ctx) })
	go func() {
		tasks.Wait()
		close(m.done)
	}()
	c.members[i] = m
	c.t.Cleanup(func() { c.stop(i) })
}

// stop ends a node as a kill does: it answers nothing any more.
func (c *cell) stop(i int) {
	m := c.members[i]
	if m.cancel == nil {
		return
	}
	m.port.cut(true)
	m.cancel()
	<-m.done
	m.cancel = nil
	m.hub.Close(nil)
	if err := m.journal.Close(); err != nil {
		c.t.Error(err)
	}
}

// settle waits until each partition has one owner that all running nodes know.
func (c *cell) settle() {
	c.t.Helper()
	end := time.Now().Add(limit)
	for p := range partitions {
		for {
			names := map[string]int{}
			running, owners := 0, 0
			for _, m := range c.members {
				if m.cancel == nil || m.port.isOff() {
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
func (c *cell) owner(id chat.SessionID) int {
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
func (c *cell) session(notOwner int) chat.SessionID {
	c.t.Helper()
	for n := 0; ; n++ {
		id := chat.SessionID(fmt.Sprintf("s-%d-%d", notOwner, n))
		if c.members[notOwner].Owns(id) {
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
func (c *cell) texts(i int, id chat.SessionID) string {
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
