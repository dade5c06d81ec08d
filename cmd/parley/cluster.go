package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/natslog"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/wire"
)

// partitions is the number of logs that the sessions of a cluster are divided into. It cannot be changed later.
const partitions = 3

// clustered reports whether the server is one of several.
func (c *ServeCmd) clustered() bool { return c.ClusterListen != "" }

// checkCluster refuses settings with which a cluster cannot work.
func (c *ServeCmd) checkCluster() error {
	switch {
	case !c.clustered() && c.ClusterNATS != "":
		return errors.New("--cluster-nats needs --cluster-listen and --cluster-peers, which name this node and all nodes")
	case !c.clustered() && len(c.ClusterPeers) == 0:
		return nil
	case !c.clustered():
		return errors.New("--cluster-peers needs --cluster-listen, the address in that list at which this node is reached")
	case len(c.ClusterPeers) != 3 && len(c.ClusterPeers) != 5:
		return fmt.Errorf("--cluster-peers has %d addresses; a cluster has 3 nodes or 5, this one included", len(c.ClusterPeers))
	case !slices.Contains(c.ClusterPeers, c.ClusterListen):
		return fmt.Errorf("--cluster-peers does not have %s, the address of --cluster-listen; the list is the same on every node", c.ClusterListen)
	case c.ClusterLogAge < time.Second || c.ClusterLogBytes < 1<<20:
		return errors.New("--cluster-log-age is at least 1s, and --cluster-log-bytes at least 1048576")
	case c.externalNATS():
		return errors.New("a cluster does not work with an external NATS server for x1 yet: leave --nats out, or switch x1 off with --nats off")
	}
	return nil
}

// nodeFile has the id of the node that the data folder belongs to.
func nodeFile(data string) string { return filepath.Join(data, "node") }

// nodeID returns the id of this node. It is made with the data folder: a new folder is a new node.
func nodeID(data string) (string, error) {
	b, err := os.ReadFile(nodeFile(data))
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(strings.ToLower(host), ".")
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name), "-")
	var random [2]byte
	_, _ = rand.Read(random[:]) // never fails
	id := fmt.Sprintf("%.40s-%x", name, random)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", err
	}
	return id, os.WriteFile(nodeFile(data), []byte(id+"\n"), 0o600)
}

// removeNode removes the id of the node: a folder that becomes one again is another node.
func removeNode(data string) error {
	if err := os.Remove(nodeFile(data)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openNode makes this server a node of a cluster. Nothing runs yet.
func (p *parley) openNode() error {
	m := p.member
	p.clusterID, p.clusterSecret = m.cluster(), m.secret
	shared, err := p.openBucket()
	if err != nil {
		return err
	}
	rank := slices.Index(m.peers, p.cfg.ClusterListen)
	p.node = node.New(node.Options{
		Cluster: p.clusterID, Name: m.id, Partitions: partitions, Journal: p.journal, Hub: p.hub, Files: p.local, Shared: shared, Logger: p.log,
		// Every node prefers other partitions, so that a new cluster shares the work.
		Rank:   func(part int) int { return (rank - part + partitions*len(m.peers)) % len(m.peers) },
		Trim:   cluster.TrimRule{Keep: p.cfg.ClusterLogAge, Bytes: p.cfg.ClusterLogBytes, Nodes: len(m.peers)},
		Folder: p.cfg.Data, FolderPrefix: backupPrefix, MaySend: m.maySend, MayOwn: m.foreign, Damage: p.damageOfStore,
		Clean: p.clean, TookOver: p.runner.TakeOver, Lost: p.runner.Release, Compact: p.compactLog, Drained: p.yieldLogs, Describe: p.describe,
		EraseNote: p.eraseNote(), ToDialects: p.receiveForDialect,
	})
	p.node.SetPeer(p.workers)
	p.workers.Connect(p.node)
	p.runs = append(p.runs, p.fetchFiles)
	return p.sweepFiles()
}

// broadcastTo returns a function that sends a message to a dialect of all other nodes. It may be lost.
func (p *parley) broadcastTo(dialect string) func(data []byte) {
	return func(data []byte) { p.node.BroadcastToDialects(append([]byte(dialect+"\n"), data...)) }
}

// receiveForDialect gives a message of another node to its dialect.
func (p *parley) receiveForDialect(data []byte) {
	dialect, data, _ := bytes.Cut(data, []byte("\n"))
	if receive := p.receive[string(dialect)]; receive != nil {
		receive(data)
	}
}

// startNode starts the embedded NATS server, unless it runs, and follows the other nodes until stop is called. stop gives the
// partitions of this node to others first. Errors are sent to errs.
func (p *parley) startNode(ctx context.Context, errs chan<- error) (stop func()) {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := make(chan *natslog.Log, 1)
	var tasks sync.WaitGroup
	if p.x1 != nil {
		p.member.x1Login(p.x1)
	}
	p.member.serve(p)
	context.AfterFunc(ctx, p.node.Stopping)
	tasks.Go(func() { p.workers.Share(run) })
	tasks.Go(func() {
		err := p.follow(run, started)
		switch {
		case err == nil || run.Err() != nil:
		default:
			errs <- fmt.Errorf("this node cannot follow the cluster: %w", err)
		}
	})
	tasks.Go(func() {
		if err := p.member.watch(run); err != nil {
			errs <- err
		}
	})
	tasks.Go(func() {
		// Without a majority writes wait, and the server would not end before them.
		select {
		case <-ctx.Done():
		case <-run.Done():
		}
		for p.majority() && sleep.For(run, time.Second/10) == nil {
		}
		cancel()
	})
	return func() {
		select {
		case log := <-started:
			p.handOver(ctx, log)
		default:
		}
		p.member.serve(nil)
		cancel()
		tasks.Wait()
	}
}

// follow follows the log of the cluster until ctx ends.
func (p *parley) follow(ctx context.Context, started chan<- *natslog.Log) error {
	server, conn, err := p.member.connect(ctx)
	if err != nil {
		return err
	}
	if server != nil {
		p.natsServer.Store(server)
	}
	close(p.busStarted)
	if err := p.member.settle(ctx); err != nil {
		return err
	}
	log, err := natslog.Open(ctx, conn, natslog.Options{Cluster: p.clusterID, Partitions: partitions, Replicas: min(3, len(p.cfg.ClusterPeers)), MaxBytes: 2 * p.cfg.ClusterLogBytes, External: p.cfg.ClusterNATS != "", Logger: p.log})
	if err != nil {
		return err
	}
	started <- log
	p.clusterLog.Store(log)
	return p.node.Run(ctx, log, node.NewNATS(conn, log, p.clusterID, p.node.Name(), p.log))
}

// eraseNote says what an erasure does not cover in a cluster with an external NATS server.
func (p *parley) eraseNote() string {
	if p.cfg.ClusterNATS == "" {
		return ""
	}
	return "the NATS server of the cluster may keep a copy in its files for some minutes"
}

// compactLog removes what was trimmed from a partition's log from the files of this node.
func (p *parley) compactLog(ctx context.Context, partition int, upTo cluster.Pos) error {
	if server := p.natsServer.Load(); server != nil && p.cfg.ClusterNATS == "" {
		return server.CompactStream(ctx, natslog.StreamName(p.clusterID, partition), uint64(upTo)+1)
	}
	return nil
}

// handOver gives the partitions and the streams of this node to other nodes.
func (p *parley) handOver(ctx context.Context, log *natslog.Log) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.node.HandOver(ctx); err != nil {
		p.log.Warn("partitions could not be handed over; the other nodes take them over in a few seconds", "err", err)
	}
	p.yieldLogs(ctx)
}

// yieldLogs makes other servers the leaders of the logs.
func (p *parley) yieldLogs(ctx context.Context) {
	if log := p.clusterLog.Load(); log != nil {
		if err := log.Yield(ctx, p.node.Name()); err != nil {
			p.log.Warn("the logs of partitions could not be handed over; writes wait a few seconds", "err", err)
		}
	}
}

// canRead returns an error while this server cannot read. A damaged store does not stop a single server: it serves what is not damaged.
func (p *parley) canRead(ctx context.Context) error {
	if p.node != nil && !p.node.CaughtUp() {
		return server.NotReady(notCaughtUp)
	}
	if p.node != nil && p.damageOfStore() != nil {
		return server.NotReady(p.damagedText())
	}
	_, err := p.sessions.List(ctx, chat.Trusted, core.Filter{Limit: 1})
	return err
}

const (
	notCaughtUp = "this node has just started and does not have yet what was stored while it was down"
	damaged     = "the store of this node is damaged; it is replaced by a copy of another node's when enough of them are ready"
)

// damagedText is the answer of /readyz while the store of a node is damaged. It lists the nodes that this one waits for.
func (p *parley) damagedText() string {
	if names := p.node.WaitsFor(); len(names) > 0 {
		return damaged + "; it waits for " + strings.Join(names, ", ")
	}
	return damaged
}

// mayServe refuses requests while this node may lack what was stored before it started: it may still have a session that was erased.
func (p *parley) mayServe(r *http.Request) error {
	if p.node == nil || p.node.CaughtUp() || r.URL.Path == "/metrics" || strings.HasPrefix(r.URL.Path, "/parley/v1/cluster") {
		return nil
	}
	return chat.Errorf(chat.Unavailable, notCaughtUp+"; try again in a moment")
}

// asOf returns the time up to which this node certainly has everything, zero if its data is current.
func (p *parley) asOf() time.Time {
	if p.node == nil {
		return time.Time{}
	}
	return p.node.AsOf()
}

// behindTime is how long a node may be cut off or behind before its clients on NATS have to find another one. Those on HTTP get errors.
// It is longer than the time after which /readyz fails, because a client misses events while it has no connection.
const behindTime = 10 * time.Second

// behindForLong reports whether this node has not been current for longer than behindTime.
func (p *parley) behindForLong() bool {
	at := p.asOf()
	return !at.IsZero() && time.Since(at) > behindTime
}

// nodesReady returns an error while this node cannot write, or is far behind.
func (p *parley) nodesReady() error {
	if p.node == nil {
		return nil
	}
	if err := p.node.Halted(); err != nil {
		return server.NotReady(err.Error())
	}
	if !p.majority() {
		return server.NotReady("this node does not hear a majority of the nodes of its cluster")
	}
	for _, st := range p.node.Status() {
		if st.Copy.Epoch == 0 {
			return chat.Errorf(chat.Unavailable, "partition %d has no owner yet", st.Partition)
		}
	}
	return p.behind()
}

// noteDamage stores the first error that says that the store is damaged.
func (p *parley) noteDamage(err error) { p.damage.CompareAndSwap(nil, &err) }

// damageOfStore returns the error of noteDamage, or nil.
func (p *parley) damageOfStore() error {
	if err := p.damage.Load(); err != nil {
		return *err
	}
	return nil
}

// majority reports whether this node hears a majority of the nodes, itself included.
func (p *parley) majority() bool { return p.node.CountPresent()+1 > len(p.member.peers)/2 }

// behind returns an error while this node is far behind the owner of a partition.
func (p *parley) behind() error {
	for _, st := range p.node.Status() {
		for _, h := range st.Peers {
			if h.Owner && h.Epoch >= st.Copy.Epoch && h.Pos > st.Copy.Pos+1000 {
				return chat.Errorf(chat.Unavailable, "this node is %d frames behind in partition %d", h.Pos-st.Copy.Pos, st.Partition)
			}
		}
	}
	return nil
}

// clusterRoutes returns the routes about the cluster.
func (p *parley) clusterRoutes() []wire.Route {
	x := &edge.HTTP{Dialect: "native", Caller: p.auth.Caller, Log: p.log}
	route := func(pattern string, f func(*http.Request) (any, error)) wire.Route {
		return x.Route(pattern, x.Reply(func(r *http.Request, c chat.Caller) (any, error) {
			if err := mayAdminister(p.auth, c); err != nil {
				return nil, err
			}
			if p.node == nil {
				return nil, chat.Errorf(chat.NotFound, "this is a single server, not a node of a cluster")
			}
			return f(r)
		}))
	}
	return []wire.Route{
		route("GET /parley/v1/cluster", func(r *http.Request) (any, error) { return p.clusterStatus(r.Context()), nil }),
		route("GET /parley/v1/cluster/verify", func(r *http.Request) (any, error) { return p.compareNodes(r.Context()) }),
		route("POST /parley/v1/cluster/drain", func(r *http.Request) (any, error) {
			q, err := readChange(x, r)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(r.Context(), changeTime)
			defer cancel()
			return struct{}{}, p.node.Drain(ctx, q.Node)
		}),
		route("POST /parley/v1/cluster/replace", func(r *http.Request) (any, error) {
			q, err := readChange(x, r)
			if err != nil {
				return nil, err
			}
			return struct{}{}, p.replaceNode(r.Context(), q.Old, q.New)
		}),
		route("POST /parley/v1/cluster/repair", func(r *http.Request) (any, error) {
			q, err := readChange(x, r)
			if err != nil {
				return nil, err
			}
			return p.repairCluster(r.Context(), q.From, q.Apply)
		}),
	}
}

// mayAdminister refuses callers that may not see or change the cluster.
func mayAdminister(a *auth.Auth, c chat.Caller) error {
	if !a.Open() && !c.AdministersAll() {
		return chat.Errorf(chat.Denied, "the state of the cluster needs the scope admin for all workspaces")
	}
	return nil
}

// ClusterCmd has the commands about a cluster.
type ClusterCmd struct {
	Status  ClusterStatusCmd  `cmd:"" help:"Show the nodes of a cluster and who owns its partitions."`
	Init    ClusterInitCmd    `cmd:"" help:"Convert the data folder of a single server into that of the first node of a cluster."`
	Leave   ClusterLeaveCmd   `cmd:"" help:"Convert the data folder of a node into that of a single server."`
	Verify  ClusterVerifyCmd  `cmd:"" help:"Compare the sessions of all nodes."`
	Drain   ClusterDrainCmd   `cmd:"" help:"Give the partitions of a node to the others, before it is stopped."`
	Repair  ClusterRepairCmd  `cmd:"" help:"Begin new logs where JetStream has lost what the nodes have stored."`
	Replace ClusterReplaceCmd `cmd:"" help:"Let a new node take the place of one that is gone for good."`
}
