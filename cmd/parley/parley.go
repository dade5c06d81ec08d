package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/audit"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/dialect/letta"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/dialect/nemo"
	"github.com/parley-hq/parley/internal/dialect/vertesia"
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

// parley is the whole program: what is plugged into what.
type parley struct {
	cfg        *ServeCmd
	fresh      bool // the data folder was empty
	auth       *auth.Auth
	log        *slog.Logger
	journal    *journal.Journal
	artifacts  *artifact.Local
	audit      *audit.Log
	hub        *hub.Hub
	sessions   *session.Sessions
	workers    *agentpool.Pool
	agents     *agentpool.Registry
	fleet      *fleet
	runner     *agentpool.Runner
	server     *server.Server
	images     *proxy.Images
	letta      *letta.Dialect
	vertesia   *vertesia.Dialect
	grants     *grant.Service               // grants and shares
	children   *orchestration.Orchestration // of sessions
	x1         *x1.Dialect                  // nil when NATS is off
	x1Listens  chan struct{}                // closed once it does
	x1Ready    sync.Once
	natsServer atomic.Pointer[bus.Server] // the embedded one, once it is there
	traces     *sdktrace.TracerProvider   // nil without a collector
	refused    *prometheus.CounterVec     // by limit
	broken     chan error                 // the store failed; room for one
	started    func(net.Addr)             // for tests; may be nil
	signals    <-chan os.Signal           // SIGHUP; nil means that none is heard
	watchers   sync.WaitGroup             // of signals
}

// open opens the store and plugs everything together. Nothing runs yet.
func open(cfg *ServeCmd, a *auth.Auth, log *slog.Logger) (p *parley, err error) {
	p = &parley{cfg: cfg, auth: a, log: log, audit: cfg.auditLog(), refused: newRefusals(), broken: make(chan error, 1), x1Listens: make(chan struct{})}
	_, none := os.Stat(storeDir(cfg.Data))
	p.fresh = errors.Is(none, fs.ErrNotExist)
	p.journal, err = journal.Open(storeDir(cfg.Data), journal.Options{
		Sync: cfg.syncMode(), MinFree: cfg.MinFree, MinFreePercent: cfg.MinFreePct, Logger: log, Fatal: p.fatal,
	})
	if err != nil {
		return nil, err
	}
	opened := p.journal // what is returned with an error is nil
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	if p.artifacts, err = artifact.Open(artifactDir(cfg.Data), artifact.Options{Max: cfg.MaxArtifact, Room: p.roomForFiles, Changed: p.countFiles}); err != nil {
		return nil, err
	}
	if err := dropCopies(cfg.Data); err != nil {
		return nil, fmt.Errorf("remove what a backup left: %w", err)
	}
	// Present only if the last process ended in order. It goes when this one
	// takes up its work: a start that fails before is no crash.
	_, missing := os.Stat(cleanFile(cfg.Data))

	p.hub = hub.New(p.journal, hub.Options{Logger: log})
	for id, blocks := range p.journal.OpenBlocks() {
		p.hub.Restore(id, blocks)
	}
	p.workers = agentpool.NewPool(agentpool.PoolOptions{Lease: cfg.Lease})
	p.agents = agentpool.NewRegistry(p.workers)
	p.fleet = &fleet{p: p, log: log, seats: map[string]*seat{}}
	made := p.fleet
	defer func() {
		if err != nil {
			made.close()
		}
	}()
	runner := agentpool.Options{Grace: cfg.Grace, Clean: missing == nil, Logger: log, Store: p.store}
	if cfg.OTLP != "" {
		if p.traces, err = tracing(cfg.OTLP, log); err != nil {
			return nil, err
		}
		runner.Tracer = p.traces.Tracer("parley")
	}
	p.runner = agentpool.NewRunner(p.agents, runner)
	cfg.setStored()
	p.sessions = session.New(p.journal, p.hub, session.Options{
		Quotas: cfg.quotas(), Scarce: p.journal.Scarce, Refused: func(quota string) { p.refused.WithLabelValues(quota).Inc() },
		Artifacts: p.artifacts, Store: p.store, Logger: log,
		Observers: []session.Observer{{Committed: p.runner.Committed, Erased: p.runner.Erased, Imported: func(s chat.Session) { p.runner.Imported(s.ID) }}, {Purge: p.purgeArchive}},
	})
	if err := p.sessions.Recover(context.Background()); err != nil {
		// Those files stay as they are; all else works.
		log.Error("changes of files that the last process left in the middle could not be finished; the next start tries again", "err", err)
	}
	p.runner.Attach(p.sessions)
	if err := p.configure(); err != nil {
		return nil, err
	}
	p.tellPrograms()
	p.openGrants()
	if err := p.openX1(); err != nil {
		return nil, err
	}
	return p, p.serve()
}

// serve makes the HTTP server and mounts the dialects.
func (p *parley) serve() error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(p.hub.Collectors()...)
	registry.MustRegister(p.journal.Collectors()...)
	registry.MustRegister(p.refused)
	conns := &wire.Conns{Panicked: func(v any, stack []byte) {
		p.log.Error("a connection failed", "fault", v, "stack", string(stack))
	}}
	var err error
	p.server, err = server.New(server.Options{
		Addr: p.cfg.Addr, CertFile: p.cfg.TLSCert, KeyFile: p.cfg.TLSKey, TrustedProxy: p.cfg.TrustedProxy,
		Auth: p.auth, Conns: conns, Logger: p.log, Registry: registry, Pprof: p.cfg.Pprof, MaxBody: p.cfg.MaxBody, Grace: p.cfg.Grace,
		Ready: func(ctx context.Context) error {
			_, err := p.sessions.List(ctx, chat.Trusted, chat.Filter{Limit: 1})
			return err
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
	door := audited{p.sessions, p} // what clients do there is recorded
	as := spoken{}                 // each dialect that can show an event in its words adds itself
	dialects := [][]wire.Route{
		native.New(native.Options{
			As:    as,
			Audit: p.reportRequest, AuditLog: p.listAudit,
			Sessions: door, Files: files{p.artifacts}, Workers: p.workers, Caller: p.auth.Caller, Allow: p.allow, Conns: conns,
			Agents: p.listAgents, Builtin: p.agents.Builtin,
			Backup: p.backup, Verify: p.verify, Messages: p.messages, Version: version, MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Logger: p.log,
		}).Routes(),
	}
	neMo := nemo.New(nemo.Options{
		Sessions: door, Files: files{p.artifacts}, Caller: p.auth.Caller, Authenticate: p.auth.Authenticate, Bind: p.auth.Context, Allow: p.allow, Remote: p.auth.Remote, Conns: conns, Agent: p.sessions.DefaultAgent,
		Schema: p.cfg.NemoSchema, Dir: p.cfg.Data, MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Tools: p.mcpClients, Logger: p.log,
	})
	as["nemo"] = neMo.As
	dialects = append(dialects, neMo.Routes())
	if p.x1 != nil {
		as["x1"] = p.x1.As
		dialects = append(dialects, p.x1.Routes())
	} else {
		dialects = append(dialects, x1.Off(p.auth.Caller, p.log))
	}
	dialects = append(dialects, p.grants.Routes())
	runs, err := p.speakVertesia(conns)
	if err != nil {
		return err
	}
	as["vertesia"] = p.vertesia.As
	dialects = append(dialects, runs)
	p.letta = letta.New(letta.Options{
		Sessions: door, Files: files{p.artifacts}, Caller: p.auth.Caller, Conns: conns, Agents: p.agentNames, Agent: p.sessions.DefaultAgent,
		Models: p.cfg.LettaModel, Post: p.post, Version: version, MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Logger: p.log,
	})
	p.sessions.Observe(session.Observer{Erased: p.letta.Erased})
	as["letta"] = p.letta.As
	dialects = append(dialects, p.letta.Routes())
	for _, routes := range dialects {
		for _, r := range routes {
			p.server.Handle(r)
		}
	}
	p.console(as)
	return nil
}

// run serves until ctx ends or the store fails. It reads in the order of an
// orderly end: stop accepting and tell clients to come back, let turns end, then
// close what they write to.
func (p *parley) run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	started := p.started
	listening := make(chan struct{})
	p.started = func(addr net.Addr) {
		close(listening)
		p.hello(out, addr)
		if started != nil {
			started(addr)
		}
	}
	var store, front sync.WaitGroup
	errs := make(chan error, 8)
	store.Go(func() { errs <- p.journal.Run(background) })
	store.Go(func() { errs <- p.sessions.Run(background) })
	recording, endAudit := context.WithCancel(background)
	var records sync.WaitGroup
	records.Go(func() { p.audit.Run(recording, p.sessions, p.log) })
	nats := p.startNATS(ctx, out, errs)
	front.Go(func() {
		if nats != nil {
			errs <- p.server.Run(ctx)
		}
	})
	front.Go(func() { errs <- p.letta.Run(ctx) })
	front.Go(func() { p.runGrants(ctx) })
	front.Go(func() { p.keepRuns(ctx) })
	front.Go(func() { p.fleet.watch(ctx, p.hangups(ctx)) })
	// Turns of before are taken up when the address is ours: a start that fails
	// must not be an attempt at them.
	front.Go(func() {
		select {
		case <-listening:
			_ = os.Remove(cleanFile(p.cfg.Data)) // not there after a crash
			errs <- p.runner.Run(ctx)
		case <-ctx.Done():
		}
	})
	select {
	case err = <-errs:
	case err = <-p.broken:
		err = fmt.Errorf("the store failed and the server ends, so that nothing is acknowledged that is not stored; look at the disk, then start it again: %w", err)
		// What is under way may wait for a store that answers no more.
		time.AfterFunc(5*time.Second, func() { os.Exit(1) })
	case <-ctx.Done():
	}
	cancel()
	front.Wait()
	p.watchers.Wait()
	p.fleet.close()
	p.images.Close()
	endAudit()
	records.Wait()
	nats.close() // what was stored goes out first
	p.hub.Close(nil)
	end()
	store.Wait()
	if p.traces != nil {
		flush, done := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		if err := p.traces.Shutdown(flush); err != nil {
			p.log.Warn("the last traces could not be sent", "collector", p.cfg.OTLP, "err", err)
		}
		done()
	}
	if cerr := p.journal.Close(); cerr != nil && err == nil {
		err = cerr // after a failed store it would say the same again
	}
	if err == nil {
		err = os.WriteFile(cleanFile(p.cfg.Data), nil, 0o600)
	}
	return err
}

// fatal is told once when the log could not be written.
func (p *parley) fatal(err error) {
	select {
	case p.broken <- err:
	default:
	}
}

// hello says that the server is ready, and how to get in.
func (p *parley) hello(out io.Writer, addr net.Addr) {
	scheme := "http"
	if p.cfg.TLSCert != "" {
		scheme = "https"
	}
	url := scheme + "://" + p.reached(addr)
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

// reached is the address to open: one that listens everywhere is reached by a
// name.
func (p *parley) reached(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort(append(p.cfg.Host, "localhost")[0], port)
}

// store keeps a file that an agent made.
func (p *parley) store(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(size int64) error) error {
	sess, err := p.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return err
	}
	_, err = p.artifacts.Put(ctx, id, path, mediaType, body, artifact.PutOptions{
		After: sess.Last, Commit: func(info chat.FileInfo) error { return commit(info.Size) },
	})
	return err
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

// post tells a program outside, at an address that a client gave.
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
		return 0, chat.Errorf(chat.Unavailable, "nobody could be reached there, or it is an address of an inner network").Because(err)
	}
	return res.StatusCode, res.Body.Close()
}

// files is the artifact store as the native dialect sees it.
type files struct{ *artifact.Local }

// Put stores a file of at most limit bytes.
func (f files) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	return f.Local.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Max: limit})
}

// agentFiles are the files of sessions for agents: what they change is in the log.
type agentFiles struct {
	files
	sessions *session.Sessions
}

// Put stores a file of at most limit bytes.
func (f agentFiles) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	c, err := f.agent(ctx, id)
	if err != nil {
		return chat.FileInfo{}, err
	}
	return f.sessions.PutFile(ctx, c, id, chat.FilePut{Path: path, MediaType: mediaType, Body: body, Max: limit})
}

// Delete removes a file.
func (f agentFiles) Delete(ctx context.Context, id chat.SessionID, path string) error {
	c, err := f.agent(ctx, id)
	if err != nil {
		return err
	}
	return f.sessions.RemoveFile(ctx, c, id, path, "")
}

// agent is the agent of a session as a caller.
func (f agentFiles) agent(ctx context.Context, id chat.SessionID) (chat.Caller, error) {
	sess, err := f.sessions.Get(ctx, chat.Trusted, id)
	return chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: cmp.Or(sess.Agent, f.sessions.DefaultAgent())}, Scopes: []chat.Scope{chat.ScopeAgent, chat.ScopeAdmin}, Workspace: sess.Workspace}, err
}

// tracing sends spans to a collector.
func tracing(endpoint string, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--otlp %q is not the address of a collector: use something like http://127.0.0.1:4318", endpoint)
	}
	// The library would write to standard error in words of its own.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces could not be sent", "collector", endpoint, "err", err)
	}))
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("traces cannot be sent to %s: %w", endpoint, err)
	}
	about := resource.NewSchemaless(semconv.ServiceName("parley"), semconv.ServiceVersion(version))
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}
