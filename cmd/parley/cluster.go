package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/natslog"
	"github.com/parley-hq/parley/internal/cluster/node"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/terminal"
	"github.com/parley-hq/parley/internal/wire"
)

// partitions is the number of logs that the sessions of a cluster are divided into. It cannot be changed later.
const partitions = 3

// clustered reports whether the server is one of several.
func (c *ServeCmd) clustered() bool { return c.ClusterListen != "" }

// checkCluster refuses settings with which a cluster cannot work.
func (c *ServeCmd) checkCluster() error {
	switch {
	case !c.clustered() && len(c.ClusterPeers) == 0:
		return nil
	case !c.clustered():
		return errors.New("--cluster-peers needs --cluster-listen, the address in that list at which this node is reached")
	case len(c.ClusterPeers) != 3 && len(c.ClusterPeers) != 5:
		return fmt.Errorf("--cluster-peers has %d addresses; a cluster has 3 nodes or 5, this one included", len(c.ClusterPeers))
	case !slices.Contains(c.ClusterPeers, c.ClusterListen):
		return fmt.Errorf("--cluster-peers does not have %s, the address of --cluster-listen; the list is the same on every node", c.ClusterListen)
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

// openNode makes this server a node of a cluster. Nothing runs yet.
func (p *parley) openNode() error {
	id, err := nodeID(p.cfg.Data)
	if err != nil {
		return fmt.Errorf("the id of this node: %w", err)
	}
	peers := slices.Sorted(slices.Values(p.cfg.ClusterPeers))
	if p.cfg.ClusterSecretFile != "" {
		if p.clusterSecret, err = cluster.ReadSecret(p.cfg.ClusterSecretFile); err != nil {
			return fmt.Errorf("--cluster-secret-file: %w", err)
		}
		p.clusterID = hex.EncodeToString(p.clusterSecret.Key("id")[:6])
	} else {
		sum := sha256.Sum256([]byte(strings.Join(peers, ",")))
		p.clusterID = hex.EncodeToString(sum[:6])
	}
	rank := slices.Index(peers, p.cfg.ClusterListen)
	p.node = node.New(node.Options{
		Cluster: p.clusterID, Name: id, Partitions: partitions, Journal: p.journal, Hub: p.hub, Files: p.local, Logger: p.log,
		// Every node prefers other partitions, so that a new cluster shares the work.
		Rank:     func(part int) int { return (rank - part + partitions*len(peers)) % len(peers) },
		TookOver: p.runner.TakeOver, Lost: p.runner.Release, Describe: p.describe,
	})
	return nil
}

// clusterBus adds the cluster to the settings of the embedded NATS server.
func (p *parley) clusterBus(opt *bus.Options) {
	opt.Cluster = &bus.Cluster{Name: p.clusterID, Node: p.node.Name(), Listen: p.cfg.ClusterListen, Peers: p.cfg.ClusterPeers, SyncLater: p.cfg.Sync != "always"}
	if p.cfg.ClusterSecretFile != "" {
		opt.Cluster.Key = p.clusterSecret.Key("nats routes")
	}
}

// startNode starts the embedded NATS server and follows the other nodes until stop is called. stop gives the partitions of
// this node to others first. Errors are sent to errs.
func (p *parley) startNode(ctx context.Context, errs chan<- error) (stop func()) {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	started := make(chan *natslog.Log, 1)
	var conn *nats.Conn
	go func() {
		defer close(ended)
		err := func() (err error) {
			server, err := p.startBus(run)
			if err != nil {
				return err
			}
			if conn, err = server.ConnectNodes(p.node.Name()); err != nil {
				return err
			}
			log, err := natslog.Open(run, conn, natslog.Options{Cluster: p.clusterID, Partitions: partitions, Replicas: min(3, len(p.cfg.ClusterPeers)), Logger: p.log})
			if err != nil {
				return err
			}
			started <- log
			return p.node.Run(run, log, node.NewNATS(conn, log, p.clusterID, p.node.Name(), p.log))
		}()
		if err != nil && run.Err() == nil {
			errs <- fmt.Errorf("this node cannot follow the cluster: %w", err)
		}
	}()
	return func() {
		select {
		case log := <-started:
			p.handOver(ctx, log)
		default:
		}
		cancel()
		<-ended
		if conn != nil {
			conn.Close()
		}
		if server := p.natsServer.Load(); server != nil {
			server.Close()
		}
	}
}

// handOver gives the partitions and the streams of this node to other nodes.
func (p *parley) handOver(ctx context.Context, log *natslog.Log) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.node.HandOver(ctx); err != nil {
		p.log.Warn("partitions could not be handed over; the other nodes take them over in a few seconds", "err", err)
	}
	if err := log.Yield(ctx, p.node.Name()); err != nil {
		p.log.Warn("the logs of partitions could not be handed over; writes wait a few seconds", "err", err)
	}
}

// startBus starts the embedded NATS server of a cluster. x1 uses the same one.
func (p *parley) startBus(ctx context.Context) (*bus.Server, error) {
	opt := bus.Options{Addr: "127.0.0.1:0", Dir: natsDir(p.cfg.Data), Logger: p.log, Login: func(bus.Login) bus.Grant { return bus.Grant{} }}
	if p.x1 != nil {
		var err error
		if opt, err = p.busOptions(); err != nil {
			return nil, err
		}
	}
	p.clusterBus(&opt)
	server, err := bus.Start(ctx, opt)
	if err != nil {
		return nil, fmt.Errorf("NATS between the nodes at %s: %w", p.cfg.ClusterListen, err)
	}
	p.natsServer.Store(server)
	close(p.busStarted)
	return server, nil
}

// nodesReady returns an error while this node cannot write, or is far behind.
func (p *parley) nodesReady() error {
	if p.node == nil {
		return nil
	}
	for _, st := range p.node.Status() {
		if st.Copy.Epoch == 0 {
			return chat.Errorf(chat.Unavailable, "partition %d has no owner yet", st.Partition)
		}
		for _, h := range st.Peers {
			if h.Owner && h.Epoch >= st.Copy.Epoch && h.Pos > st.Copy.Pos+1000 {
				return chat.Errorf(chat.Unavailable, "this node is %d steps behind in partition %d", h.Pos-st.Copy.Pos, st.Partition)
			}
		}
	}
	return nil
}

// clusterRoutes returns the routes about the cluster. A single server has them too: it is a cluster of one.
func (p *parley) clusterRoutes() []wire.Route {
	x := edge.HTTP{Dialect: "native", Caller: p.auth.Caller, Log: p.log}
	return []wire.Route{x.Route("GET /parley/v1/cluster", x.Reply(func(_ *http.Request, c chat.Caller) (any, error) {
		if !p.auth.Open() && !c.AdministersAll() {
			return nil, chat.Errorf(chat.Denied, "the state of the cluster needs the scope admin for all workspaces")
		}
		if p.node == nil {
			return nil, chat.Errorf(chat.NotFound, "this is a single server, not a node of a cluster")
		}
		return p.clusterStatus(), nil
	}))}
}

// describe adds to a heartbeat what other nodes show of this one.
func (p *parley) describe(h *cluster.Heartbeat) {
	h.Version, h.Ready = version, p.nodesReady() == nil
	if url := p.url.Load(); url != nil {
		h.URL = *url
	}
}

// clusterStatus returns what this node knows of the cluster.
func (p *parley) clusterStatus() client.Cluster {
	own := cluster.Heartbeat{}
	p.describe(&own)
	res := client.Cluster{Node: p.node.Name(), Nodes: []client.ClusterNode{{ID: p.node.Name(), URL: own.URL, Version: own.Version, Ready: own.Ready}}}
	for _, st := range p.node.Status() {
		c := st.Copy
		res.Partitions = append(res.Partitions, client.ClusterPartition{Partition: st.Partition, Owner: c.Claim.Node, Epoch: c.Epoch, Position: uint64(c.Pos), Synced: uint64(st.Synced)})
		furthest := c.Pos
		for _, h := range st.Peers {
			furthest = max(furthest, h.Pos)
		}
		res.Nodes[0].Behind += uint64(furthest - c.Pos)
		for _, h := range st.Peers {
			i := slices.IndexFunc(res.Nodes, func(n client.ClusterNode) bool { return n.ID == h.Node })
			if i < 0 {
				i = len(res.Nodes)
				res.Nodes = append(res.Nodes, client.ClusterNode{ID: h.Node, URL: h.URL, Version: h.Version, Ready: h.Ready && time.Since(h.Heard) < 5*time.Second})
			}
			res.Nodes[i].Behind += uint64(furthest - h.Pos)
		}
	}
	slices.SortFunc(res.Nodes, func(a, b client.ClusterNode) int { return strings.Compare(a.ID, b.ID) })
	return res
}

// ClusterCmd is about several servers that keep the same sessions.
type ClusterCmd struct {
	Status ClusterStatusCmd `cmd:"" help:"Show the nodes of a cluster and who owns its partitions."`
}

// ClusterStatusCmd shows the state of a cluster.
type ClusterStatusCmd struct {
	remote `embed:""`
	JSON   bool `help:"The answer of the server as JSON."`
}

// Run prints two tables, or JSON.
func (c *ClusterStatusCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	st, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		b, err := json.Marshal(st)
		if err == nil {
			_, err = fmt.Fprintf(std.out, "%s\n", b)
		}
		return err
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tREADY\tBEHIND\tVERSION\tURL")
	for _, n := range st.Nodes {
		ready := map[bool]string{true: "yes", false: "no"}[n.Ready]
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", terminal.Sanitize(n.ID), ready, n.Behind, terminal.Sanitize(n.Version), terminal.Sanitize(n.URL))
	}
	fmt.Fprintln(table, "\nPARTITION\tOWNER\tEPOCH\tPOSITION\tSYNCED")
	for _, p := range st.Partitions {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\n", p.Partition, terminal.Sanitize(p.Owner), p.Epoch, p.Position, p.Synced)
	}
	return table.Flush()
}
