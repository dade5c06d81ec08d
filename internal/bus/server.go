package bus

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is a NATS server inside the process.
type Server struct {
	nats   *server.Server
	opt    Options
	secret string // of connections from within the process
	ready  chan struct{}
	failed chan struct{}

	closing sync.Once
}

// Start starts a server and returns when clients can connect. It fails if an address is in
// use or the folder cannot be used.
func Start(ctx context.Context, opt Options) (*Server, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	listen := []string{opt.Addr, opt.WebSocket}
	if opt.Cluster != nil {
		listen = append(listen, opt.Cluster.Listen)
	}
	for _, addr := range listen {
		if err := free(ctx, addr); err != nil {
			return nil, err
		}
	}
	s := &Server{opt: opt, secret: rand.Text(), ready: make(chan struct{}), failed: make(chan struct{})}
	settings, err := opt.server((*authenticator)(s))
	if err != nil {
		return nil, err
	}
	if s.nats, err = server.NewServer(settings); err != nil {
		return nil, fmt.Errorf("NATS cannot be set up: %w", err)
	}
	s.nats.SetLoggerV2(&logger{log: opt.Logger.With("part", "nats")}, false, false, false)
	s.nats.Start()
	if err := s.open(ctx); err != nil {
		close(s.failed)
		s.Close()
		return nil, err
	}
	close(s.ready)
	return s, nil
}

// open waits for the server and configures its accounts. Until then clients cannot log in.
func (s *Server) open(ctx context.Context) error {
	timeout := 10 * time.Second
	if at, ok := ctx.Deadline(); ok {
		timeout = time.Until(at)
	}
	if !s.nats.ReadyForConnections(timeout) {
		return errors.New("NATS did not get ready; its log says why")
	}
	if !s.nats.JetStreamEnabled() {
		return fmt.Errorf("JetStream could not be started in %s; the log says why", s.opt.Dir)
	}
	main, err := s.main()
	if err != nil {
		return fmt.Errorf("main account of NATS: %w", err)
	}
	if err := addMappings(main, s.opt.Main.Mappings); err != nil {
		return err
	}
	for _, a := range s.opt.Accounts {
		acc, err := s.nats.RegisterAccount(s.account(a.Name))
		if err != nil {
			return fmt.Errorf("account %s: %w", a.Name, err)
		}
		if err := addMappings(acc, a.Mappings); err != nil {
			return err
		}
		for _, p := range a.Services {
			if err := main.AddServiceExport(wild(p.To), nil); err != nil {
				return fmt.Errorf("account %s offers %s: %w", a.Name, p.To, err)
			}
			if err := acc.AddServiceImport(main, p.From, wild(p.To)); err != nil {
				return fmt.Errorf("account %s reaches %s: %w", a.Name, p.To, err)
			}
			if err := acc.SetServiceImportSharing(main, wild(p.To), true); err != nil {
				return fmt.Errorf("account %s signs %s: %w", a.Name, p.To, err)
			}
		}
		for _, subject := range a.Streams {
			if err := main.AddStreamExport(subject, nil); err != nil {
				return fmt.Errorf("account %s is shown %s: %w", a.Name, subject, err)
			}
			if err := acc.AddMappedStreamImport(main, subject, subject); err != nil {
				return fmt.Errorf("account %s follows %s: %w", a.Name, subject, err)
			}
		}
	}
	return nil
}

// account returns the name of an account at this server. In a cluster each node has its own ones, except that of the nodes.
func (s *Server) account(name string) string {
	if s.opt.Cluster == nil || name == nodesAccount || name == s.nats.SystemAccount().Name {
		return name
	}
	return s.opt.Cluster.account(name)
}

func addMappings(acc *server.Account, pairs []Pair) error {
	for _, p := range pairs {
		if err := acc.AddMapping(p.From, p.To); err != nil {
			return fmt.Errorf("map %s to %s: %w", p.From, p.To, err)
		}
	}
	return nil
}

// wild replaces $1, $2 … of a subject by wildcards.
func wild(to string) string {
	tokens := strings.Split(to, ".")
	for i, t := range tokens {
		if strings.HasPrefix(t, "$") && len(t) == 2 {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// free fails if an address is in use. The server itself would only log that.
func free(ctx context.Context, addr string) error {
	if addr == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("NATS cannot listen on %s: %w", addr, err)
	}
	return l.Close()
}

// Addr is where clients connect.
func (s *Server) Addr() string {
	if a := s.nats.Addr(); a != nil {
		return a.String()
	}
	return ""
}

// URL is Addr as clients write it.
func (s *Server) URL() string {
	if s.opt.TLS != nil {
		return "tls://" + s.Addr()
	}
	return "nats://" + s.Addr()
}

// WebSocketURL is where browsers connect, "" when they cannot.
func (s *Server) WebSocketURL() string {
	if s.opt.WebSocket == "" {
		return ""
	}
	return s.nats.WebsocketURL()
}

// Listened reports whether a subject has subscribers, in the main account or through a
// stream of another one.
func (s *Server) Listened(subject string) bool {
	main, err := s.main()
	return err == nil && main.Interest(subject) > 0
}

// Cut closes the connections of all users for which fits is true, except those from within the process. When it returns they
// receive nothing more. They may reconnect and then log in again.
func (s *Server) Cut(fits func(user string) bool) error {
	const page = 1024
	var ids []uint64
	for offset := 0; ; offset += page {
		list, err := s.nats.Connz(&server.ConnzOptions{Username: true, State: server.ConnOpen, Offset: offset, Limit: page})
		if err != nil {
			return fmt.Errorf("list the clients of NATS: %w", err)
		}
		for _, c := range list.Conns {
			if !fromWithin(c.AuthorizedUser) && fits(c.AuthorizedUser) {
				ids = append(ids, c.Cid)
			}
		}
		if len(list.Conns) < page {
			break
		}
	}
	for _, id := range ids {
		_ = s.nats.DisconnectClientByID(id) // it may have disconnected
	}
	return nil
}

// Connect returns a connection from within the process to the main account. It
// may do everything. The caller closes it.
func (s *Server) Connect(name string) (*nats.Conn, error) { return s.connect(name, internalUser) }

func (s *Server) connect(name, user string) (*nats.Conn, error) {
	opts := append(connectOptions(name, s.opt.Logger), nats.InProcessServer(s.nats), nats.UserInfo(user, s.secret))
	if s.opt.TLS != nil {
		// The connection does not leave the process.
		opts = append(opts, nats.Secure(insecure(s.opt.TLS)))
	}
	c, err := nats.Connect("", opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS inside the process: %w", err)
	}
	return c, nil
}

// Close disconnects all clients and ends the server.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	})
}

// internalUser is the login name of connections from within the process.
const internalUser = "parley"

// fromWithin reports whether a login name is one of the connections from within the process. Clients cannot have them.
func fromWithin(user string) bool {
	return user == internalUser || user == nodesUser || user == systemUser
}

// authenticator checks logins.
type authenticator Server

// Check decides about one login. It is called on the client's own goroutine.
func (d *authenticator) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if fromWithin(o.Username) && subtle.ConstantTimeCompare([]byte(o.Password), []byte(d.secret)) == 1 {
		account := ""
		if o.Username == nodesUser {
			account = nodesAccount
		} else if o.Username == systemUser {
			account = d.nats.SystemAccount().Name
		}
		return d.register(c, &server.User{Username: o.Username}, account)
	}
	select {
	case <-d.ready:
	case <-d.failed:
		return false
	}
	if d.opt.Login == nil {
		return d.register(c, &server.User{Username: o.Username}, "")
	}
	in := Login{User: o.Username, Password: o.Password, Token: o.Token}
	if a := c.RemoteAddress(); a != nil {
		in.Address = a.String()
	}
	g := d.opt.Login(in)
	if g.Later {
		// Clients of NATS give up for good when a server refuses them twice.
		_ = d.nats.DisconnectClientByID(c.GetID()) // it may have disconnected
		return false
	}
	if !g.OK || fromWithin(g.Name) || d.opt.Cluster != nil && g.Account == nodesAccount {
		return false
	}
	user := &server.User{Username: g.Name, ConnectionDeadline: g.Until}
	if g.Publish != nil || g.Subscribe != nil || g.NoPublish != nil {
		user.Permissions = &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: g.Publish, Deny: g.NoPublish},
			Subscribe: &server.SubjectPermission{Allow: g.Subscribe},
		}
	}
	return d.register(c, user, g.Account)
}

// register logs a user in to an account; "" is the main one.
func (d *authenticator) register(c server.ClientAuthentication, user *server.User, account string) bool {
	if account == "" && d.opt.Cluster != nil {
		account = mainAccount
	}
	if account != "" {
		acc, err := d.nats.LookupAccount((*Server)(d).account(account))
		if err != nil {
			return false
		}
		user.Account = acc
	}
	c.RegisterUser(user)
	return true
}
