package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/datafolder"
	"github.com/parley-hq/parley/internal/cluster/natslog"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/sleep"
)

// member is this server among the servers of its cluster. It has what stays while the parts of the server end and start again
// over another store: the lock of the data folder, the NATS server and what the other nodes say.
type member struct {
	cfg    *ServeCmd
	log    *slog.Logger
	folder *datafolder.Folder
	lock   io.Closer
	id     string // of this node
	name   string // of the network of the nodes
	secret cluster.Secret
	peers  []string                                  // sorted
	login  atomic.Pointer[func(bus.Login) bus.Grant] // of clients of NATS; nil refuses them

	listener *sharedListener // of HTTP
	copies   prometheus.Counter
	damage   *prometheus.CounterVec // by what was damaged

	busMu  sync.Mutex
	server *bus.Server
	conn   *nats.Conn
	stop   context.CancelFunc // of the hellos

	mu      sync.Mutex
	state   datafolder.Membership
	serving *parley // nil while the server waits or copies
	why     string  // what it waits for
	heard   map[string]node.Hello
}

// runNode runs the server as a node of a cluster. When the store has to be replaced, the parts of the server end, and start again
// over the new one.
func (c *ServeCmd) runNode(ctx context.Context, a *auth.Auth, log *slog.Logger, hangup <-chan os.Signal, out io.Writer) error {
	m, err := c.openMember(log)
	if err != nil {
		return err
	}
	defer m.close()
	for {
		begun := time.Now()
		if err := m.join(ctx, a, out); err != nil {
			return ignoreEnd(ctx, err)
		}
		p, err := open(c, a, log, m)
		if err == nil {
			p.signals = hangup
			err = p.run(ctx, out)
		}
		if err == nil || !m.needsCopy(err) {
			return err
		}
		if wait := 5*time.Second - time.Since(begun); wait > 0 && sleep.For(ctx, wait) != nil {
			return nil
		}
	}
}

// ignoreEnd returns nil if the program was told to end.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// openMember locks the data folder and reads what it belongs to.
func (c *ServeCmd) openMember(log *slog.Logger) (m *member, err error) {
	m = &member{cfg: c, log: log, folder: datafolder.New(c.Data), heard: map[string]node.Hello{}, peers: slices.Sorted(slices.Values(c.ClusterPeers))}
	m.copies = prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_cluster_copies_total", Help: "Stores of other nodes that this process has copied."})
	m.damage = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_cluster_damage_total",
		Help: "Damage that this process has found: in its store, between its store and the log (copy), or in the log.",
	}, []string{"in"})
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, err
	}
	if m.lock, err = journal.Lock(filepath.Join(c.Data, "lock")); err != nil {
		return nil, fmt.Errorf("the data folder %s is in use by another process: stop it, or name another folder (%w)", c.Data, err)
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.id, err = nodeID(c.Data); err != nil {
		return nil, fmt.Errorf("the id of this node: %w", err)
	}
	l, err := server.Listen(context.Background(), c.Addr)
	if err != nil {
		return nil, err
	}
	m.listener = shareListener(l)
	if c.ClusterSecretFile != "" {
		if m.secret, err = cluster.ReadSecret(c.ClusterSecretFile); err != nil {
			return nil, fmt.Errorf("--cluster-secret-file: %w", err)
		}
		m.name = hex.EncodeToString(m.secret.Key("id")[:6])
	} else {
		sum := sha256.Sum256([]byte(strings.Join(m.peers, ",")))
		m.name = hex.EncodeToString(sum[:6])
	}
	return m, nil
}

// checkSingle refuses the data folder of a node.
func (c *ServeCmd) checkSingle() error {
	m, there, err := datafolder.New(c.Data).Membership()
	if err != nil || !there {
		return err
	}
	return fmt.Errorf("%s is the data folder of a node of cluster %s: start it with --cluster-listen and --cluster-peers, or convert it to a single server with: parley cluster leave --data %s", c.Data, m.Cluster, c.Data)
}

// close ends the NATS server and releases the data folder.
func (m *member) close() {
	m.busMu.Lock()
	defer m.busMu.Unlock()
	if m.stop != nil {
		m.stop()
	}
	if m.conn != nil {
		m.conn.Close()
	}
	if m.server != nil {
		m.server.Close()
	}
	if m.listener != nil {
		_ = m.listener.Close() // the program ends
	}
	if err := m.lock.Close(); err != nil {
		m.log.Warn("the lock of the data folder could not be released", "err", err)
	}
}

// connect starts the NATS server, the first time, and returns it and a connection for the traffic between the nodes. The server is
// nil if it is external.
func (m *member) connect(ctx context.Context) (*bus.Server, *nats.Conn, error) {
	m.busMu.Lock()
	defer m.busMu.Unlock()
	if m.conn != nil {
		return m.server, m.conn, nil
	}
	server, conn, err := m.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	hellos, stop := context.WithCancel(context.WithoutCancel(ctx))
	if err := m.sayHello(hellos, conn); err != nil {
		stop()
		conn.Close()
		if server != nil {
			server.Close()
		}
		return nil, nil, err
	}
	m.server, m.conn, m.stop = server, conn, stop
	return server, conn, nil
}

// dial connects to the external NATS server; without one it starts the embedded server.
func (m *member) dial(ctx context.Context) (*bus.Server, *nats.Conn, error) {
	if m.cfg.ClusterNATS != "" {
		var opts []nats.Option
		if m.cfg.ClusterNATSCreds != "" {
			opts = append(opts, nats.UserCredentials(m.cfg.ClusterNATSCreds))
		}
		if m.cfg.ClusterNATSCA != "" {
			opts = append(opts, nats.RootCAs(m.cfg.ClusterNATSCA))
		}
		conn, err := bus.Dial(m.cfg.ClusterNATS, m.id, m.log, opts...)
		if err != nil {
			return nil, nil, fmt.Errorf("--cluster-nats: %w", err)
		}
		return nil, conn, nil
	}
	opt, err := m.busOptions()
	if err != nil {
		return nil, nil, err
	}
	server, err := bus.Start(ctx, opt)
	if err != nil {
		return nil, nil, fmt.Errorf("NATS between the nodes at %s: %w", m.cfg.ClusterListen, err)
	}
	conn, err := server.ConnectNodes(m.id)
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return server, conn, nil
}

// busOptions returns the settings of the embedded NATS server. x1 uses the same one.
func (m *member) busOptions() (opt bus.Options, err error) {
	opt = bus.Options{Addr: "127.0.0.1:0", Dir: natsDir(m.cfg.Data), Logger: m.log}
	if m.cfg.NATS != "off" {
		if opt, err = m.cfg.busOptions(m.log); err != nil {
			return opt, err
		}
	}
	opt.Login = func(in bus.Login) bus.Grant {
		if login := m.login.Load(); login != nil {
			return (*login)(in)
		}
		return bus.Grant{Later: true}
	}
	opt.Cluster = &bus.Cluster{Name: m.name, Node: m.id, Listen: m.cfg.ClusterListen, Peers: m.cfg.ClusterPeers, SyncLater: m.cfg.Sync != "always"}
	if m.cfg.ClusterSecretFile != "" {
		opt.Cluster.Key = m.secret.Key("nats routes")
	}
	return opt, nil
}

// set changes what this node says of itself. p is nil while the server waits or copies.
func (m *member) set(state datafolder.Membership, p *parley, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.serving, m.why = state, p, why
}

// serve notes the parts of the server that follow the cluster; nil means that there are none.
func (m *member) serve(p *parley) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serving, m.why = p, ""
}

// cluster returns the id of the cluster that the store belongs to.
func (m *member) cluster() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Cluster
}

// maySend returns why the store of this node must not be sent to another one.
func (m *member) maySend() error {
	m.mu.Lock()
	p := m.serving
	m.mu.Unlock()
	if p == nil {
		return chat.Errorf(chat.Unavailable, "this node does not have a complete store itself")
	}
	damaged := 0
	for _, h := range m.others() {
		if h.Damaged && h.Cluster == m.cluster() {
			damaged++
		}
	}
	if damaged > len(m.peers)/2 {
		return chat.Errorf(chat.Unavailable, "the stores of %d nodes do not match the log that this node has written; which one is right must be decided by a person: compare them with parley verify", damaged)
	}
	if err := p.damageOfStore(); err != nil {
		return chat.Errorf(chat.Unavailable, "the store of this node is damaged, too").Because(err)
	}
	return p.behind()
}

// needsCopy reports whether a server that ended with an error needs the store of another node, and notes that.
func (m *member) needsCopy(err error) bool {
	state, there, merr := m.folder.Membership()
	if merr != nil || !there || state.Cluster == "" {
		return false
	}
	aside := false
	switch {
	case errors.Is(err, cluster.ErrDamaged):
		state.Damaged = true
		m.damage.WithLabelValues("copy").Inc()
	case errors.Is(err, cluster.ErrTrimmed):
	case errors.Is(err, natslog.ErrMissing):
		m.damage.WithLabelValues("log").Inc()
	case journal.IsDamage(err):
		aside = true
		m.damage.WithLabelValues("store").Inc()
	default:
		return false
	}
	state.NeedsCopy, state.Copied = err.Error(), false
	m.log.Error("the store of this node cannot be used any more; it is replaced by a copy of another node's", "err", err)
	store := m.folder.SetMembership
	if aside {
		store = m.folder.SetAside
	}
	if serr := store(state); serr != nil {
		m.log.Error("it could not be noted that the store must be replaced", "err", serr)
		return false
	}
	m.set(state, nil, "")
	return true
}

// newClusterID returns an id for a new cluster.
func newClusterID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// x1Login lets the clients of NATS log in.
func (m *member) x1Login(d *x1.Dialect) {
	login := func(in bus.Login) bus.Grant {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return d.Login(auth.Via(ctx, auth.CarrierNATS, in.Address), in)
	}
	m.login.Store(&login)
}
