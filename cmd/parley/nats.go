package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
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

// natsDir is where the embedded NATS keeps its files.
func natsDir(data string) string { return filepath.Join(data, "nats") }

// externalNATS reports whether NATS runs elsewhere.
func (c *ServeCmd) externalNATS() bool { return strings.Contains(c.NATS, "://") }

// checkNATS refuses addresses that would let strangers in.
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

// openX1 makes the dialect; it speaks once NATS is there.
func (p *parley) openX1() (err error) {
	if p.cfg.NATS == "off" {
		return nil
	}
	opt := x1.Options{
		Listening: func() { p.x1Ready.Do(func() { close(p.x1Listens) }) },
		Listened:  func(subject string) bool { s := p.natsServer.Load(); return s == nil || s.Listened(subject) },
		Cut: func(fits func(string) bool) error {
			if s := p.natsServer.Load(); s != nil {
				return s.Cut(fits)
			}
			return nil
		},
		Check:    p.auth.Check,
		Refused:  func(ctx context.Context, err error) { _ = p.auth.Refused(ctx, err) }, // NATS answers in its own form
		Issued:   func(c chat.Caller, details map[string]any) { p.auth.Report(auth.CredentialIssued, c, details) },
		Sessions: audited{p.sessions, p}, Caller: p.auth.Caller, Main: auth.Local, Allow: p.allow, Signed: bus.Publisher, Dir: p.cfg.Data, ErasedSince: p.journal.ErasedSince,
		External: p.cfg.externalNATS(), Keep: p.cfg.NATSKeep, Logger: p.log,
	}
	if !p.auth.Open() {
		opt.Token = p.auth.Authenticate
		opt.Main.Actor = chat.Actor{Kind: chat.User, ID: "admin"}
	}
	if p.cfg.Summary == "plain" {
		opt.Summarise = x1.PlainSummary
	}
	opt.Main.Credential = "" // it is checked when a client logs in
	if p.x1, err = x1.New(opt); err != nil {
		return err
	}
	p.auth.OnRevoked(p.x1.Revoked)
	p.sessions.Observe(session.Observer{Published: p.x1.Published, Erased: p.x1.Erased, Imported: p.x1.Imported})
	return nil
}

// purgeArchive waits until x1's archive has nothing more of an erased session, so
// that a receipt says what is so.
func (p *parley) purgeArchive(ctx context.Context, id chat.SessionID) error {
	if id.System() {
		return nil // it is never published
	}
	if p.x1 == nil {
		if _, err := os.Stat(natsDir(p.cfg.Data)); err == nil || x1.HasArchive(p.cfg.Data) {
			return chat.Errorf(chat.Unavailable, "the archive of x1 may have a copy of it, and NATS is switched off: start the server with NATS once, or remove nats and x1-archive.json from the data folder")
		}
		return nil
	}
	patience := 30 * time.Second // each event is overwritten by itself
	select {
	case <-p.x1Listens:
	default:
		patience = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !p.x1.Forgotten(ctx, id) {
		return chat.Errorf(chat.Unavailable, "the archive of x1 still has a copy of it, because NATS is not there or overwriting takes longer")
	}
	return nil
}

// link is NATS while the server runs.
type link struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	server *bus.Server // nil when NATS runs elsewhere, or is not there yet
	conn   *nats.Conn
}

// startNATS starts the embedded server, or connects to the one elsewhere, and
// lets x1 speak. It waits only a moment: a large archive must not keep the server
// from being ready. What goes wrong is told to errs; it is nil when that was so at
// once.
func (p *parley) startNATS(ctx context.Context, out io.Writer, errs chan<- error) *link {
	l := &link{}
	if p.x1 == nil {
		return l
	}
	if err := p.natsIsFree(ctx); err != nil {
		errs <- err
		return nil
	}
	// It outlives the order to end, so that what is stored gets out.
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
	patience := time.NewTimer(500 * time.Millisecond)
	defer patience.Stop()
	select {
	case <-failed:
		l.close()
		return nil
	case <-p.x1Listens:
		if l.server != nil {
			fmt.Fprintf(out, "x1 clients find NATS at %s\n", l.server.URL())
		}
	case <-patience.C:
		p.log.Info("NATS needs longer to start; the rest does not wait for it")
	}
	return l
}

// connectNATS returns a connection, to a server that it starts if need be.
func (p *parley) connectNATS(ctx context.Context, l *link) (conn *nats.Conn, err error) {
	if p.cfg.externalNATS() {
		if conn, err = bus.Dial(p.cfg.NATS, "parley", p.log); err != nil {
			return nil, fmt.Errorf("--nats: %w", err)
		}
	} else {
		opt, err := p.busOptions()
		if err != nil {
			return nil, err
		}
		server, err := bus.Start(ctx, opt)
		if err != nil {
			return nil, fmt.Errorf("--nats %s: %w", p.cfg.NATS, err)
		}
		l.mu.Lock()
		l.server = server
		l.mu.Unlock()
		p.natsServer.Store(server)
		p.x1.Reachable(server.URL(), server.WebSocketURL())
		if conn, err = server.Connect("parley"); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	return conn, nil
}

// natsIsFree says in time, and clearly, that the address is taken.
func (p *parley) natsIsFree(ctx context.Context) error {
	if p.cfg.externalNATS() {
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

func (p *parley) busOptions() (bus.Options, error) {
	layout := x1.Subjects()
	opt := bus.Options{
		Addr: p.cfg.NATS, WebSocket: p.cfg.NATSWebSocket, Dir: natsDir(p.cfg.Data), Logger: p.log,
		Main: bus.Account{Mappings: pairs(layout.Main)},
		Accounts: []bus.Account{{
			Name: x1.GuestAccount, Mappings: pairs(layout.GuestMappings), Services: pairs(layout.GuestServices), Streams: layout.GuestStreams,
		}},
		Login: func(in bus.Login) bus.Grant {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			ctx = auth.Via(ctx, auth.CarrierNATS, in.Remote)
			a := p.x1.Login(ctx, in.User, in.Password, in.Token)
			return bus.Grant{OK: a.OK, Account: a.Account, Name: a.Name, Publish: a.Publish, Subscribe: a.Subscribe, NoPublish: a.NoPublish, Until: a.Until}
		},
	}
	if _, port, err := net.SplitHostPort(p.cfg.Addr); err == nil {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			opt.Origins = append(opt.Origins, "http://"+net.JoinHostPort(host, port), "https://"+net.JoinHostPort(host, port))
		}
	}
	opt.Origins = append(opt.Origins, p.cfg.AllowOrigin...)
	if p.cfg.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(p.cfg.TLSCert, p.cfg.TLSKey)
		if err != nil {
			return opt, fmt.Errorf("the certificate cannot be used for NATS: %w", err)
		}
		opt.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	return opt, nil
}

func pairs(list []x1.Pair) []bus.Pair {
	out := make([]bus.Pair, len(list))
	for i, p := range list {
		out[i] = bus.Pair(p)
	}
	return out
}

// close lets x1 finish, then ends the connection and the server.
func (l *link) close() {
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
