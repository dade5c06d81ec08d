package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// run serves until ctx ends or a part fails. It starts the parts from the store to the clients and stops them in the
// opposite order.
func (p *parley) run(ctx context.Context, out io.Writer) error {
	out = &lockedWriter{w: out}             // the lines of the server and of NATS come in any order
	errs := make(chan error, 9+len(p.runs)) // one slot for each sender, so that none blocks at the end
	stopStore := background(ctx,
		func(ctx context.Context) { errs <- p.journal.Run(ctx) },
		func(ctx context.Context) { errs <- p.sessions.Run(ctx) },
	)
	stopAudit := background(ctx, func(ctx context.Context) { p.audit.Run(ctx, p.sessions, p.log) })
	stopNode := func() {}
	if p.node != nil {
		stopNode = p.startNode(ctx, errs)
	}
	nats := p.startNATS(ctx, out, errs)
	stopServing := func() {}
	if nats != nil {
		stopServing = p.startServing(ctx, out, errs)
	}

	err := p.waitForEnd(ctx, errs)

	stopServing() // accepts nothing more, tells clients to reconnect, lets turns end
	p.agents.Close()
	p.images.Close()
	stopAudit()
	nats.close() // after x1 has published what is stored
	stopNode()
	p.hub.Close(nil)
	stopStore()
	p.flushTraces(ctx)
	if cerr := p.journal.Close(); cerr != nil && err == nil {
		err = cerr // after a failed store it is the same error
	}
	if err == nil {
		err = os.WriteFile(cleanFile(p.cfg.Data), nil, 0o600)
	}
	return err
}

// background runs functions until stop is called, which waits until they have returned. They do not end with ctx.
func background(ctx context.Context, runs ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	for _, run := range runs {
		wg.Go(func() { run(ctx) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// startServing starts the HTTP server, the dialects, the grants and the agents.
func (p *parley) startServing(ctx context.Context, out io.Writer, errs chan<- error) (stop func()) {
	listening := make(chan struct{})
	p.started = func(addr net.Addr) {
		close(listening)
		p.printReady(out, addr)
	}
	reloads := make(chan struct{}, 1)
	runs := []func(context.Context){
		func(ctx context.Context) { errs <- p.server.Run(ctx) },
		p.runGrants,
		func(ctx context.Context) { p.watchSignals(ctx, reloads) },
		func(ctx context.Context) { p.fleet.Run(ctx, reloads) },
		// Turns of the last process continue when this one listens: a start that fails must not count as an attempt.
		func(ctx context.Context) {
			select {
			case <-listening:
				_ = os.Remove(cleanFile(p.cfg.Data)) // after a crash it does not exist
				errs <- p.runner.Run(ctx)
			case <-ctx.Done():
			}
		},
	}
	for _, run := range p.runs {
		runs = append(runs, func(ctx context.Context) {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				errs <- err
			}
		})
	}
	return background(ctx, runs...)
}

// waitForEnd waits until ctx ends or a part fails.
func (p *parley) waitForEnd(ctx context.Context, errs <-chan error) error {
	select {
	case err := <-errs:
		return err
	case err := <-p.storeError:
		// Running requests may wait for ever for a failed store.
		time.AfterFunc(5*time.Second, func() { os.Exit(1) })
		return fmt.Errorf("the store failed and the server ends, so that nothing is acknowledged that is not stored; look at the disk, then start it again: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// fatal receives the error when the log cannot be written.
func (p *parley) fatal(err error) {
	select {
	case p.storeError <- err:
	default:
	}
}

// flushTraces sends the traces that are left.
func (p *parley) flushTraces(ctx context.Context) {
	if p.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := p.traces.Shutdown(ctx); err != nil {
		p.log.Warn("the last traces could not be sent", "collector", collectorName(p.cfg.OTLP), "err", err)
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
