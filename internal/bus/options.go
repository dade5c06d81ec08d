package bus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options of an embedded server.
type Options struct {
	Addr      string      // where clients connect; port 0 takes a free one
	WebSocket string      // where browsers connect; "" means not at all
	Origins   []string    // web pages that may connect by WebSocket; nil means the same origin only
	TLS       *tls.Config // nil means plain connections

	Dir string // folder of JetStream

	Cluster *Cluster // nil means a single server

	Main     Account           // rules of the main account, which has only mappings
	Accounts []Account         // further ones
	Login    func(Login) Grant // decides what a client may do; nil allows everything

	Logger *slog.Logger // nil means none
}

// Account is a separate namespace of subjects.
type Account struct {
	Name     string
	Mappings []Pair   // a message on From is handled as a message on To
	Services []Pair   // a message on From reaches the main account on To, with the login name of its sender
	Streams  []string // subjects of the main account that can be subscribed to
}

// Pair maps one subject to another; each * of From is $1, $2 … in To.
type Pair struct{ From, To string }

// Login is what a client sends when it connects.
type Login struct {
	User, Password, Token string
	Address               string // of the client
}

// Grant is the answer to a Login; the zero value refuses it.
type Grant struct {
	OK        bool
	Later     bool      // this server does not serve clients now: the connection ends without an error, so that they try the next server, or again
	Account   string    // "" is the main one
	Name      string    // login name; see Publisher
	Publish   []string  // subjects after mapping; nil means all
	Subscribe []string  // nil means all
	NoPublish []string  // taken out of Publish
	Until     time.Time // when the connection is closed; zero means never
}

// Validate reports what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if _, _, err := split(o.Addr); err != nil {
		errs = append(errs, err)
	}
	if o.WebSocket != "" {
		if _, _, err := split(o.WebSocket); err != nil {
			errs = append(errs, err)
		}
	}
	if o.Dir == "" {
		errs = append(errs, errors.New("NATS needs a folder for its files"))
	}
	if o.Cluster != nil {
		errs = append(errs, o.Cluster.validate())
	}
	return errors.Join(errs...)
}

func split(addr string) (string, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not an address of the form host:port", addr)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q has no port between 0 and 65535", addr)
	}
	return host, int(n), nil
}

// server returns the settings of the server: little memory, no log of its own, no signal
// handlers.
func (o Options) server(check server.Authentication) (*server.Options, error) {
	host, port, err := split(o.Addr)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts := &server.Options{
		ServerName: "parley", Host: host, Port: port,
		NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: o.Dir, JetStreamMaxMemory: 32 << 20, JetStreamMaxStore: 8 << 30,
		DisableJetStreamBanner: true,
		MaxPayload:             1 << 20,
		MaxPending:             32 << 20,
		WriteDeadline:          5 * time.Second,
		// A slow subscriber must not slow down publishers.
		NoFastProducerStall:        true,
		LameDuckDuration:           time.Second,
		LameDuckGracePeriod:        50 * time.Millisecond,
		CustomClientAuthentication: check,
		TLSConfig:                  o.TLS,
		AuthTimeout:                5,
	}
	if o.TLS != nil {
		opts.TLS, opts.TLSTimeout = true, 5
	}
	if o.WebSocket != "" {
		host, port, err := split(o.WebSocket)
		if err != nil {
			return nil, err
		}
		if port == 0 {
			port = server.RANDOM_PORT
		}
		opts.Websocket = server.WebsocketOpts{
			Host: host, Port: port, NoTLS: o.TLS == nil, TLSConfig: o.TLS,
			SameOrigin: len(o.Origins) == 0, AllowedOrigins: o.Origins, HandshakeTimeout: 5 * time.Second,
		}
	}
	if o.Cluster != nil {
		if err := o.Cluster.apply(opts); err != nil {
			return nil, err
		}
	}
	return opts, nil
}
