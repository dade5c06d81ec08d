package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentfleet"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/audit"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/natslog"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/grant"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/natsprovider/orchestration"
	"github.com/parley-hq/parley/internal/proxy"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/wire"
)

// parley is the server: every part and how the parts are connected.
type parley struct {
	cfg       *ServeCmd
	fresh     bool // the data folder was empty
	clean     bool // the last process ended in order
	log       *slog.Logger
	auth      *auth.Auth
	journal   *journal.Journal
	artifacts artifact.Store
	local     *artifact.Local // the files on this machine's disk; the same as artifacts on a single server
	audit     *audit.Log
	hub       *hub.Hub
	sessions  *session.Sessions

	node          *node.Node // nil on a single server
	member        *member
	clusterID     string
	clusterSecret cluster.Secret
	clusterLog    atomic.Pointer[natslog.Log]
	busStarted    chan struct{}          // closed when the NATS server of the cluster has started
	url           atomic.Pointer[string] // where clients reach this server, once it listens
	damage        atomic.Pointer[error]  // see noteDamage

	workers *agentpool.Pool
	agents  *agentpool.Registry
	runner  *agentpool.Runner
	fleet   *agentfleet.Fleet // the agents of the configuration

	server   *server.Server
	conns    *wire.Conns
	encoders map[string]eventEncoder       // by dialect
	runs     []func(context.Context) error // of the dialects
	receive  map[string]func(data []byte)  // by dialect, see receiveForDialect
	images   *proxy.Images
	grants   *grant.Service               // grants and shares
	children *orchestration.Orchestration // child sessions

	x1           *x1.Dialect   // nil when NATS is off
	x1Subscribed chan struct{} // closed when x1 has subscribed
	x1Ready      sync.Once
	natsServer   atomic.Pointer[bus.Server] // the embedded NATS server, once it has started

	traces     *sdktrace.TracerProvider // nil without a collector
	refused    *prometheus.CounterVec   // by limit
	storeError chan error               // a failed write of the log; one slot
	started    func(net.Addr)           // called when the server listens
	signals    <-chan os.Signal         // SIGHUP; nil disables reloads
}

// open opens the store and connects all parts. Nothing runs yet. m is nil on a single server.
func open(cfg *ServeCmd, a *auth.Auth, log *slog.Logger, m *member) (*parley, error) {
	p := &parley{
		member: m, cfg: cfg, auth: a, log: log, audit: cfg.auditLog(), refused: newRefusals(), storeError: make(chan error, 1), x1Subscribed: make(chan struct{}), busStarted: make(chan struct{}),
		encoders: map[string]eventEncoder{}, receive: map[string]func([]byte){},
		conns: &wire.Conns{Panicked: func(v any, stack []byte) {
			log.Error("a connection failed", "fault", v, "stack", string(stack))
		}},
	}
	err := p.openParts()
	if err == nil {
		return p, nil
	}
	if p.agents != nil {
		p.agents.Close()
	}
	if p.journal != nil {
		err = errors.Join(err, p.journal.Close())
	}
	return nil, err
}

func (p *parley) openParts() error {
	if err := p.openStore(); err != nil {
		return err
	}
	if err := p.openFiles(); err != nil {
		return err
	}
	p.hub = hub.New(p.journal, hub.Options{Logger: p.log})
	for id, blocks := range p.journal.OpenBlocks() {
		p.hub.Restore(id, blocks)
	}
	if err := p.openRunner(); err != nil {
		return err
	}
	if p.cfg.clustered() {
		if err := p.openNode(); err != nil {
			return err
		}
		p.artifacts = p.node.Files()
	}
	p.openSessions()
	if err := p.shareSignIns(); err != nil {
		return err
	}
	p.openFleet()
	if err := p.startFleet(); err != nil {
		return err
	}
	p.logPrograms()
	p.openGrants()
	return p.openServer()
}

// openStore opens the journal.
func (p *parley) openStore() error {
	_, err := os.Stat(storeDir(p.cfg.Data))
	p.fresh = errors.Is(err, fs.ErrNotExist)
	j, err := journal.Open(storeDir(p.cfg.Data), journal.Options{
		Sync: p.cfg.syncMode(), MinFree: p.cfg.MinFree, MinFreePercent: p.cfg.MinFreePct, Logger: p.log, Fatal: p.fatal, Damaged: p.noteDamage,
	})
	if err != nil {
		return err
	}
	p.journal = j
	if err := removeBackupCopies(p.cfg.Data); err != nil {
		return fmt.Errorf("remove the copies of interrupted backups: %w", err)
	}
	return nil
}

// openRunner creates the parts that give turns to agents and workers.
func (p *parley) openRunner() (err error) {
	p.workers = agentpool.NewPool(agentpool.PoolOptions{Lease: p.cfg.Lease})
	p.agents = agentpool.NewRegistry(p.workers)
	// The file exists when the last process ended in order. It is removed when this process starts to serve: a start that
	// fails before that is not a crash.
	_, missing := os.Stat(cleanFile(p.cfg.Data))
	p.clean = missing == nil
	opt := agentpool.Options{Grace: p.cfg.Grace, Clean: p.clean, Wait: p.cfg.clustered(), Logger: p.log, Store: p.store}
	if p.cfg.OTLP != "" {
		if p.traces, err = tracing(p.cfg.OTLP, p.log); err != nil {
			return err
		}
		opt.Tracer = p.traces.Tracer("parley")
	}
	p.runner = agentpool.NewRunner(p.agents, opt)
	return nil
}

// openSessions creates the sessions and finishes what the last process left unfinished.
func (p *parley) openSessions() {
	p.cfg.setStored()
	opt := session.Options{
		Quotas: p.cfg.quotas(), Scarce: p.journal.Scarce, Refused: func(quota string) { p.refused.WithLabelValues(quota).Inc() },
		Artifacts: p.artifacts, Store: p.store, Logger: p.log,
		Observers: []session.Observer{
			{Committed: p.runner.Committed, Erased: p.runner.Erased, Imported: func(s chat.Session) {
				if p.node == nil || p.node.Owns(s.ID) {
					p.runner.Imported(s.ID)
				}
			}},
			{Purge: p.purgeArchive},
		},
	}
	if p.node == nil {
		p.sessions = session.New(p.journal, p.hub, opt)
	} else {
		p.sessions = p.node.NewSessions(opt)
	}
	if err := p.sessions.Recover(context.Background()); err != nil {
		// The files stay as they are. Everything else works.
		p.log.Error("changes of files that the last process left in the middle could not be finished; the next start tries again", "err", err)
	}
	p.runner.Attach(p.sessions)
}

// requestGrace is the least time that requests and connections have to end when the server shuts down: Grace is about turns and
// may be shorter than an upload or the close handshake of a slow client.
const requestGrace = 5 * time.Second

// openServer creates the HTTP server with the routes of the dialects, of the grants and of the console.
func (p *parley) openServer() error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(p.hub.Collectors()...)
	registry.MustRegister(p.journal.Collectors()...)
	registry.MustRegister(p.refused)
	var err error
	name := ""
	if p.node != nil {
		name = p.node.Name()
		registry.MustRegister(p.node.Collectors()...)
		registry.MustRegister(p.member.copies, p.member.damage)
	}
	var listener net.Listener // nil: the server makes one
	if p.member != nil {
		listener = p.member.listener.borrow()
	}
	p.server, err = server.New(server.Options{
		Node: name, Listener: listener, Addr: p.cfg.Addr, CertFile: p.cfg.TLSCert, KeyFile: p.cfg.TLSKey, TrustedProxy: p.cfg.TrustedProxy,
		Auth: p.auth, Conns: p.conns, Logger: p.log, Registry: registry, Pprof: p.cfg.Pprof, MaxBody: p.cfg.MaxBody, Grace: max(p.cfg.Grace, requestGrace),
		Ready: func(ctx context.Context) error { return errors.Join(p.canRead(ctx), p.nodesReady()) },
		Reads: p.canRead, Serves: p.mayServe, AsOf: p.asOf,
		Started: func(addr net.Addr) { p.started(addr) },
	})
	if err != nil {
		return err
	}
	for _, d := range dialects {
		e, err := d.open(p)
		if err != nil {
			return err
		}
		p.mount(e.routes)
		if e.as != nil {
			p.encoders[d.name] = e.as
		}
		if e.run != nil {
			p.runs = append(p.runs, e.run)
		}
		if e.receive != nil {
			p.receive[d.name] = e.receive
		}
	}
	p.mount(p.grants.Routes())
	p.mount(p.clusterRoutes())
	p.mountConsole()
	return nil
}

// mount adds routes to the server.
func (p *parley) mount(routes []wire.Route) {
	for _, r := range routes {
		p.server.Handle(r)
	}
}
