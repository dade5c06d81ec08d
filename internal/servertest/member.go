package servertest

import (
	"context"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/session"
)

// Files is the artifact store as dialects see it.
type Files struct {
	artifact.Store
	Local *artifact.Local // the files on disk; on a single server the same as Store
}

// Put stores a file of at most limit bytes.
func (f Files) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	return f.Store.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Max: limit})
}

// member is a server without authentication and HTTP: the only one, or a node of a cluster.
type member struct {
	t        testing.TB
	journal  *journal.Journal
	hub      *hub.Hub
	files    Files
	pool     *agentpool.Pool
	registry *agentpool.Registry
	runner   *agentpool.Runner
	sessions *session.Sessions
	node     *node.Node // nil on a single server

	runs     []func(context.Context) error // what runs beside the runner
	endTurns context.CancelFunc
	turns    sync.WaitGroup
	end      context.CancelFunc
	running  sync.WaitGroup
}

// newMember opens the parts of a member and connects them. Nothing runs yet. in is nil on a single server.
func newMember(t testing.TB, dir string, opt *Options, erased func(chat.SessionID), in *place) *member {
	t.Helper()
	m := &member{t: t}
	m.openStore(dir, opt)
	m.pool = agentpool.NewPool(agentpool.PoolOptions{})
	m.registry = agentpool.NewRegistry(m.pool)
	m.registry.Add(demo.Info, demo.Agent{})
	for name, a := range opt.Agents {
		m.registry.Add(agent.Info{Name: name}, a)
	}
	m.runner = agentpool.NewRunner(m.registry, agentpool.Options{Grace: time.Millisecond, Clean: true, Wait: in != nil, Store: m.store})
	if in != nil {
		m.join(in)
	}
	rules := session.Options{
		Artifacts: m.files.Store, Store: m.store, Now: opt.Now, DefaultAgent: opt.DefaultAgent,
		Observers: []session.Observer{{Committed: m.runner.Committed, Erased: func(id chat.SessionID) {
			m.runner.Erased(id)
			erased(id)
		}}},
	}
	if m.node == nil {
		m.sessions = session.New(m.journal, m.hub, rules)
	} else {
		m.sessions = m.node.NewSessions(rules)
	}
	m.runner.Attach(m.sessions)
	m.runs = append(m.runs, m.journal.Run, m.sessions.Run)
	return m
}

// openStore opens the journal, the files and the hub.
func (m *member) openStore(dir string, opt *Options) {
	m.t.Helper()
	var err error
	m.journal, err = journal.Open(filepath.Join(dir, "store"), journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1, Now: opt.Now})
	if err != nil {
		m.t.Fatal(err)
	}
	var now func() chat.At
	if opt.Now != nil {
		now = func() chat.At { return chat.AtOf(opt.Now()) }
	}
	if m.files.Local, err = artifact.Open(filepath.Join(dir, "files"), artifact.Options{Now: now}); err != nil {
		m.t.Fatal(err)
	}
	m.files.Store = m.files.Local
	m.hub = hub.New(m.journal, hub.Options{})
	for id, blocks := range m.journal.OpenBlocks() {
		m.hub.Restore(id, blocks)
	}
}

// store stores a file of an agent; commit appends its event.
func (m *member) store(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(size int64) error) error {
	_, err := m.files.Store.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Commit: func(info chat.FileInfo) error {
		if m.node != nil {
			return m.node.Files().Named(ctx, id, info, func() error { return commit(info.Size) })
		}
		return commit(info.Size)
	}})
	return err
}

// start starts what runs.
func (m *member) start() {
	ctx, end := context.WithCancel(context.Background())
	m.end = end
	for _, f := range m.runs {
		m.running.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				m.t.Error(err)
			}
		})
	}
	turns, endTurns := context.WithCancel(context.Background())
	m.endTurns = endTurns
	m.turns.Go(func() { _ = m.runner.Run(turns) })
}

// closeMembers ends the running turns, which the next start resumes, and then the rest of all members at the same time: they may
// wait for each other.
func closeMembers(members []*member) {
	for _, m := range members {
		m.endTurns()
		m.turns.Wait()
	}
	for _, m := range members {
		m.end()
	}
	for _, m := range members {
		m.running.Wait()
		m.hub.Close(nil)
		if err := m.journal.Close(); err != nil {
			m.t.Error(err)
		}
	}
}
