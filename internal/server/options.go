package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/wire"
)

// Options configure a [Server]. Only Auth is required.
type Options struct {
	Addr     string       // "" means 127.0.0.1:8000
	Listener net.Listener // used instead of Addr when set; closed by Run

	CertFile, KeyFile string // TLS; read again when they change
	TrustedProxy      bool   // a proxy in front does TLS

	Auth     *auth.Auth
	Conns    *wire.Conns // shared with the dialects; nil means a new one
	Logger   *slog.Logger
	Registry *prometheus.Registry // nil means a new one

	Node    string                      // id in a cluster, for the header Parley-Node; "" on a single server
	Ready   func(context.Context) error // returns an error while the server is not ready
	Reads   func(context.Context) error // the same for a server that only has to be able to read; nil means Ready
	Serves  func(*http.Request) error   // returns why a request cannot be answered yet; probes are answered; nil means that all can
	AsOf    func() time.Time            // the time up to which the data is complete, for the header Parley-As-Of; zero if it is current; may be nil
	Started func(net.Addr)              // called when it listens
	Pprof   bool                        // serve profiles at /debug/pprof/ to admins

	MaxBody           int64         // bytes of a request body; 0 means 8 MiB
	MaxHeader         int           // bytes of a request head; 0 means 64 KiB
	ReadHeaderTimeout time.Duration // 0 means 10 s
	BodyTimeout       time.Duration // for each piece of a body to arrive, twice that of an upload; 0 means 30 s
	IdleTimeout       time.Duration // of a kept-alive connection; 0 means 2 min
	Grace             time.Duration // for requests in progress at the end; 0 means 10 s
}

// defaultAddr is the address of a server without Options.Addr.
const defaultAddr = "127.0.0.1:8000"

func (o *Options) defaults() {
	o.Addr = cmp.Or(o.Addr, defaultAddr)
	if o.Conns == nil {
		o.Conns = &wire.Conns{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	o.MaxHeader = cmp.Or(o.MaxHeader, 64<<10)
	o.ReadHeaderTimeout = cmp.Or(o.ReadHeaderTimeout, 10*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 2*time.Minute)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
}

// Validate returns everything that is wrong with o, joined, or nil.
func (o Options) Validate() error {
	var bad []error
	if o.Auth == nil {
		return errors.New("server: Auth is required; auth.New with zero options is open mode")
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		bad = append(bad, errors.New("TLS needs both --tls-cert and --tls-key"))
	}
	addr := o.Addr
	if o.Listener != nil {
		addr = o.Listener.Addr().String()
	}
	if addr != "" {
		if err := auth.RefuseOpenBeyondLoopback(addr, o.Auth, o.CertFile != "", o.TrustedProxy); err != nil {
			bad = append(bad, err)
		}
	}
	for name, n := range map[string]int64{
		"MaxBody": o.MaxBody, "MaxHeader": int64(o.MaxHeader), "ReadHeaderTimeout": int64(o.ReadHeaderTimeout),
		"BodyTimeout": int64(o.BodyTimeout), "IdleTimeout": int64(o.IdleTimeout), "Grace": int64(o.Grace),
	} {
		if n < 0 {
			bad = append(bad, fmt.Errorf("%s is negative", name))
		}
	}
	return errors.Join(bad...)
}

// Route is one route of a dialect.
type Route = wire.Route
