package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/session"
)

// natsDir is the folder of the embedded NATS server.
func natsDir(data string) string { return filepath.Join(data, "nats") }

// externalNATS reports whether --nats names a server that runs elsewhere.
func (c *ServeCmd) externalNATS() bool { return strings.Contains(c.NATS, "://") }

// checkNATS refuses addresses beyond this machine when the server needs no token or has no TLS.
func (c *ServeCmd) checkNATS(a *auth.Auth) error {
	if c.NATS == "off" || c.externalNATS() {
		return nil
	}
	for flag, addr := range map[string]string{"--nats": c.NATS, "--nats-websocket": c.NATSWebSocket} {
		if addr == "" {
			continue
		}
		if err := auth.RefuseOpenBeyondLoopback(addr, a, c.TLSCert != "", c.TrustedProxy); err != nil {
			return chat.Errorf(chat.Invalid, "%s: %s", flag, chat.Public(err).Msg)
		}
	}
	return nil
}

// openX1 creates the x1 dialect. startNATS runs it.
func (p *parley) openX1() (e endpoint, err error) {
	if p.cfg.NATS == "off" {
		return endpoint{routes: x1.Off(p.auth.Caller, p.log)}, nil
	}
	opt := x1.Options{
		Listening: func() { p.x1Ready.Do(func() { close(p.x1Subscribed) }) },
		Listened:  func(subject string) bool { s := p.natsServer.Load(); return s == nil || s.Listened(subject) },
		Cut: func(fits func(string) bool) error {
			if s := p.natsServer.Load(); s != nil {
				return s.Cut(fits)
			}
			return nil
		},
		Check:    p.auth.Check,
		Refused:  func(ctx context.Context, err error) { _ = p.auth.Refused(ctx, err) }, // NATS sends its own error
		Issued:   func(c chat.Caller, details map[string]any) { p.auth.Report(auth.CredentialIssued, c, details) },
		Sessions: audited{p.sessions, p}, Caller: p.auth.Caller, Main: auth.Local, Allow: p.allow, Dir: p.cfg.Data, ErasedSince: p.journal.ErasedSince,
		External: p.cfg.externalNATS(), Keep: p.cfg.NATSKeep, Summaries: p.cfg.Summary == "plain", Logger: p.log,
	}
	if p.cfg.ClusterSecretFile != "" && p.node != nil {
		opt.Key = p.clusterSecret.Key("x1 credentials")
	}
	if p.node != nil {
		opt.Owns, opt.Behind, opt.Broadcast = p.node.Owns, p.behindForLong, p.broadcastTo("x1")
	}
	if !p.auth.Open() {
		opt.Token = p.auth.Authenticate
		opt.Main.Actor = chat.Actor{Kind: chat.User, ID: "admin"}
	}
	opt.Main.Credential = "" // checked at login
	if p.x1, err = x1.New(opt); err != nil {
		return e, err
	}
	p.auth.OnRevoked(p.x1.Revoked)
	p.sessions.Observe(session.Observer{Published: p.x1.Published, Erased: p.x1.Erased, Imported: p.x1.Imported})
	return endpoint{routes: p.x1.Routes(), as: p.x1.As, receive: p.x1.ReceivePresence}, nil
}

// purgeArchive waits until x1's archive has no copy of an erased session, so that the receipt of the erasure is correct.
func (p *parley) purgeArchive(ctx context.Context, id chat.SessionID) error {
	if id.System() {
		return nil // system sessions are never published
	}
	if p.x1 == nil {
		_, err := os.Stat(natsDir(p.cfg.Data)) // in a cluster it has the log of the partitions
		if err == nil && p.node == nil || x1.HasArchive(p.cfg.Data) {
			return chat.Errorf(chat.Unavailable, "the archive of x1 may have a copy of it, and NATS is switched off: start the server with NATS once, or remove nats and x1-archive.json from the data folder")
		}
		return nil
	}
	timeout := 30 * time.Second // events are overwritten one by one
	select {
	case <-p.x1Subscribed:
	default:
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !p.x1.WaitErased(ctx, id) {
		return chat.Errorf(chat.Unavailable, "the archive of x1 still has a copy of it, because NATS is not there or overwriting takes longer")
	}
	return nil
}

// natsLink is the NATS server and the connection to it.
type natsLink struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	server *bus.Server // nil when NATS is external, is that of the cluster, or has not started
	shared *bus.Server // that of the cluster; its member closes it
	conn   *nats.Conn
}

// url is the address of the NATS server, without a password.
func (l *natsLink) url() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := cmp.Or(l.server, l.shared); s != nil {
		return s.URL()
	}
	return l.conn.ConnectedUrlRedacted()
}

// startNATS starts the embedded NATS server, or connects to an external one, and runs x1. It waits at most half a second,
// because a large archive must not delay the start of the server. The address is written to out when x1 has subscribed.
// Errors are sent to errs; the result is nil when the start failed within that time.
func (p *parley) startNATS(ctx context.Context, out io.Writer, errs chan<- error) *natsLink {
	l := &natsLink{}
	if p.x1 == nil {
		return l
	}
	if err := p.natsIsFree(ctx); err != nil {
		errs <- err
		return nil
	}
	// It ends after ctx, so that events stored during the shutdown are published.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	failed := make(chan struct{})
	l.wg.Go(func() {
		conn, err := p.connectNATS(run, l)
		if err == nil {
			err = p.runX1(run, conn)
		}
		if err != nil && run.Err() == nil {
			errs <- err
			close(failed)
		}
	})
	announced := make(chan struct{})
	l.wg.Go(func() {
		select {
		case <-p.x1Subscribed:
			fmt.Fprintf(out, "x1 clients find NATS at %s\n", l.url())
			close(announced)
		case <-run.Done():
		}
	})
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-failed:
		l.close()
		return nil
	case <-announced:
	case <-timer.C:
		p.log.Info("NATS needs longer to start; the rest does not wait for it")
	}
	return l
}

// connectNATS connects to NATS. It starts the embedded server unless NATS is external.
func (p *parley) connectNATS(ctx context.Context, l *natsLink) (conn *nats.Conn, err error) {
	if p.cfg.externalNATS() {
		if conn, err = bus.Dial(p.cfg.NATS, "parley", p.log); err != nil {
			return nil, fmt.Errorf("--nats: %w", err)
		}
	} else if p.node != nil && p.cfg.ClusterNATS == "" {
		select {
		case <-p.busStarted:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		server := p.natsServer.Load()
		l.mu.Lock()
		l.shared = server
		l.mu.Unlock()
		p.x1.Reachable(server.URL(), server.WebSocketURL(), server.Tag())
		if conn, err = server.Connect("parley"); err != nil {
			return nil, err
		}
	} else {
		opt, err := p.cfg.busOptions(p.log)
		if err != nil {
			return nil, err
		}
		opt.Login = func(in bus.Login) bus.Grant {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return p.x1.Login(auth.Via(ctx, auth.CarrierNATS, in.Address), in)
		}
		server, err := bus.Start(ctx, opt)
		if err != nil {
			return nil, fmt.Errorf("--nats %s: %w", p.cfg.NATS, err)
		}
		l.mu.Lock()
		l.server = server
		l.mu.Unlock()
		p.natsServer.Store(server)
		p.x1.Reachable(server.URL(), server.WebSocketURL(), server.Tag())
		if conn, err = server.Connect("parley"); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	return conn, nil
}

// natsIsFree returns a clear error when an address of the embedded server is in use.
func (p *parley) natsIsFree(ctx context.Context) error {
	if p.cfg.externalNATS() || p.member != nil && p.cfg.ClusterNATS == "" { // that of a cluster may have started already
		return nil
	}
	for flag, addr := range map[string]string{"--nats": p.cfg.NATS, "--nats-websocket": p.cfg.NATSWebSocket} {
		if addr == "" {
			continue
		}
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("NATS cannot listen on %s: %w; choose another address with %s, or switch NATS off with --nats off", addr, err, flag)
		}
		if err := ln.Close(); err != nil {
			return err
		}
	}
	return nil
}

// busOptions returns the settings of the embedded NATS server, without Login.
func (c *ServeCmd) busOptions(log *slog.Logger) (bus.Options, error) {
	main, guests := x1.Accounts()
	opt := bus.Options{
		Addr: c.NATS, WebSocket: c.NATSWebSocket, Dir: natsDir(c.Data), Main: main, Accounts: []bus.Account{guests}, Logger: log,
	}
	if _, port, err := net.SplitHostPort(c.Addr); err == nil {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			opt.Origins = append(opt.Origins, "http://"+net.JoinHostPort(host, port), "https://"+net.JoinHostPort(host, port))
		}
	}
	opt.Origins = append(opt.Origins, c.AllowOrigin...)
	if c.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return opt, fmt.Errorf("the certificate cannot be used for NATS: %w", err)
		}
		opt.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	return opt, nil
}

// close waits until x1 has published everything, then closes the connection and the server.
func (l *natsLink) close() {
	if l == nil || l.stop == nil {
		return
	}
	l.stop()
	l.wg.Wait()
	if l.conn != nil {
		l.conn.Close()
	}
	if l.server != nil {
		l.server.Close()
	}
}
