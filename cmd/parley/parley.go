package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
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
	"github.com/parley-hq/parley/internal/core"
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

	workers *agentpool.Pool
	agents  *agentpool.Registry
	runner  *agentpool.Runner
	fleet   *agentfleet.Fleet // the agents of the configuration

	server   *server.Server
	conns    *wire.Conns
	encoders map[string]eventEncoder       // by dialect
	runs     []func(context.Context) error // of the dialects
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
	started    func(net.Addr)           // for tests; may be nil
	signals    <-chan os.Signal         // SIGHUP; nil disables reloads
	watchers   sync.WaitGroup           // of signals
}

// open opens the store and connects all parts. Nothing runs yet. m is nil on a single server.
func open(cfg *ServeCmd, a *auth.Auth, log *slog.Logger, m *member) (p *parley, err error) {
	p = &parley{
		member: m, cfg: cfg, auth: a, log: log, audit: cfg.auditLog(), refused: newRefusals(), storeError: make(chan error, 1), x1Subscribed: make(chan struct{}), busStarted: make(chan struct{}),
		encoders: map[string]eventEncoder{},
		conns: &wire.Conns{Panicked: func(v any, stack []byte) {
			log.Error("a connection failed", "fault", v, "stack", string(stack))
		}},
	}
	var opened []func() error
	defer func() {
		if err != nil {
			for _, closeOne := range slices.Backward(opened) {
				err = errors.Join(err, closeOne())
			}
		}
	}()
	if err := p.openStore(); err != nil {
		return nil, err
	}
	opened = append(opened, p.journal.Close)
	if err := p.openFiles(); err != nil {
		return nil, err
	}
	p.hub = hub.New(p.journal, hub.Options{Logger: log})
	for id, blocks := range p.journal.OpenBlocks() {
		p.hub.Restore(id, blocks)
	}
	if err := p.openRunner(); err != nil {
		return nil, err
	}
	if cfg.clustered() {
		if err := p.openNode(); err != nil {
			return nil, err
		}
		p.artifacts = p.node.Files()
	}
	p.openSessions()
	if err := p.shareSignIns(); err != nil {
		return nil, err
	}
	p.openFleet()
	fleet := p.fleet
	opened = append(opened, func() error { fleet.Close(); return nil })
	if err := p.startFleet(); err != nil {
		return nil, err
	}
	p.logPrograms()
	p.openGrants()
	return p, p.openServer()
}

// openStore opens the journal.
func (p *parley) openStore() error {
	_, err := os.Stat(storeDir(p.cfg.Data))
	p.fresh = errors.Is(err, fs.ErrNotExist)
	p.journal, err = journal.Open(storeDir(p.cfg.Data), journal.Options{
		Sync: p.cfg.syncMode(), MinFree: p.cfg.MinFree, MinFreePercent: p.cfg.MinFreePct, Logger: p.log, Fatal: p.fatal,
	})
	if err != nil {
		return err
	}
	if err := removeBackupCopies(p.cfg.Data); err != nil {
		return errors.Join(fmt.Errorf("remove the copies of interrupted backups: %w", err), p.journal.Close())
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
	opt := agentpool.Options{Grace: p.cfg.Grace, Clean: missing == nil, Wait: p.cfg.clustered(), Logger: p.log, Store: p.store}
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
		opt.Remote = p.node
		p.sessions = session.New(p.node.Journal(), p.node.Live(), opt)
		p.node.Attach(p.sessions)
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
		Ready: func(ctx context.Context) error {
			_, err := p.sessions.List(ctx, chat.Trusted, core.Filter{Limit: 1})
			return errors.Join(err, p.nodesReady())
		},
		Started: func(addr net.Addr) {
			if p.started != nil {
				p.started(addr)
			}
		},
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

// run serves until ctx ends or the store fails. It ends in this order: stop accepting and tell clients to reconnect, let
// turns end, then close the parts that turns write to.
func (p *parley) run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	out = &lockedWriter{w: out} // the lines of the server and of NATS come in any order
	started := p.started
	listening := make(chan struct{})
	p.started = func(addr net.Addr) {
		close(listening)
		p.printReady(out, addr)
		if started != nil {
			started(addr)
		}
	}
	var store, front sync.WaitGroup
	errs := make(chan error, 9+len(p.runs)) // one slot for each sender, so that none blocks at the end
	store.Go(func() { errs <- p.journal.Run(background) })
	store.Go(func() { errs <- p.sessions.Run(background) })
	recording, endAudit := context.WithCancel(background)
	var records sync.WaitGroup
	records.Go(func() { p.audit.Run(recording, p.sessions, p.log) })
	stopNode := func() {}
	if p.node != nil {
		stopNode = p.startNode(ctx, errs)
	}
	nats := p.startNATS(ctx, out, errs)
	front.Go(func() {
		if nats != nil {
			errs <- p.server.Run(ctx)
		}
	})
	for _, run := range p.runs {
		front.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				errs <- err
			}
		})
	}
	front.Go(func() { p.runGrants(ctx) })
	front.Go(func() { p.fleet.Run(ctx, p.reloads(ctx)) })
	// Turns of the last process continue when this one listens: a start that fails must not count as an attempt.
	front.Go(func() {
		select {
		case <-listening:
			_ = os.Remove(cleanFile(p.cfg.Data)) // after a crash it does not exist
			errs <- p.runner.Run(ctx)
		case <-ctx.Done():
		}
	})
	select {
	case err = <-errs:
	case err = <-p.storeError:
		err = fmt.Errorf("the store failed and the server ends, so that nothing is acknowledged that is not stored; look at the disk, then start it again: %w", err)
		// Running requests may wait for ever for a failed store.
		time.AfterFunc(5*time.Second, func() { os.Exit(1) })
	case <-ctx.Done():
	}
	cancel()
	front.Wait()
	p.watchers.Wait()
	p.fleet.Close()
	p.images.Close()
	endAudit()
	records.Wait()
	nats.close() // after x1 has published what is stored
	stopNode()
	p.hub.Close(nil)
	end()
	store.Wait()
	p.flushTraces(ctx)
	if cerr := p.journal.Close(); cerr != nil && err == nil {
		err = cerr // after a failed store it is the same error
	}
	if err == nil {
		err = os.WriteFile(cleanFile(p.cfg.Data), nil, 0o600)
	}
	return err
}

// flushTraces sends the traces that are left.
func (p *parley) flushTraces(ctx context.Context) {
	if p.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := p.traces.Shutdown(ctx); err != nil {
		p.log.Warn("the last traces could not be sent", "collector", p.cfg.OTLP, "err", err)
	}
}

// fatal receives the error when the log cannot be written.
func (p *parley) fatal(err error) {
	select {
	case p.storeError <- err:
	default:
	}
}

// printReady prints that the server is ready, and how to sign in.
func (p *parley) printReady(out io.Writer, addr net.Addr) {
	url := p.cfg.url(addr)
	p.url.Store(&url)
	if p.auth.Open() {
		fmt.Fprintf(out, "Parley %s is ready at %s (data in %s; open to everyone on this machine, no token is set)\n", version, url, p.cfg.Data)
		return
	}
	fmt.Fprintf(out, "Parley %s is ready at %s (data in %s; a token is needed)\n", version, url, p.cfg.Data)
	if len(p.cfg.Token) > 0 {
		admin, err := p.auth.Authenticate(context.Background(), p.cfg.Token[0])
		if err == nil {
			fmt.Fprintf(out, "Sign in once with %s\n", p.auth.SignInURL(url, admin))
		}
	}
}

// lockedWriter makes writes exclude each other.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// url is the address to open. A server that listens on all addresses needs a name for it.
func (c *ServeCmd) url(addr net.Addr) string {
	scheme := "http://"
	if c.TLSCert != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return scheme + addr.String()
	}
	return scheme + net.JoinHostPort(append(c.Host, "localhost")[0], port)
}

// listAgents describes the agents that a workspace can use.
func (p *parley) listAgents(workspace string) any {
	all, usual := p.agents.List(workspace, p.runner.Running()), p.sessions.DefaultAgent()
	for i := range all {
		all[i].Default = all[i].Name == usual
	}
	return all
}

// agentNames lists the agents that a workspace can use.
func (p *parley) agentNames(workspace string) []string {
	var names []string
	for _, info := range p.agents.List(workspace, nil) {
		names = append(names, info.Name)
	}
	return names
}

// post calls an address that a client gave. It refuses addresses of internal networks.
func (p *parley) post(ctx context.Context, address string, body []byte) (int, error) {
	client := auth.SafeClient(10 * time.Second)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, chat.Errorf(chat.Invalid, "the address cannot be called").Because(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return 0, chat.Errorf(chat.Unavailable, "the address does not answer, or it belongs to an internal network").Because(err)
	}
	return res.StatusCode, res.Body.Close()
}
