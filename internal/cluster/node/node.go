package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/session"
)

// Options of a node. Times that are 0 have the value in brackets.
type Options struct {
	Cluster    string // id of the cluster
	Name       string // id of the node
	Partitions int
	Rank       func(partition int) int // the order in which nodes claim a partition without an owner; nil means 0
	Journal    *journal.Journal
	Hub        *hub.Hub
	Files      *artifact.Local // the bytes of files on this node; nil means that there are no files

	// TookOver is called when this node has become the owner of sessions that have work. handover says that the owner before
	// it gave them up in order. Lost is called when another node has become the owner of the sessions for which of returns
	// true. Neither may block.
	TookOver func(ids []chat.SessionID, handover bool)
	Lost     func(of func(chat.SessionID) bool)

	Describe func(*cluster.Heartbeat) // sets what other nodes show of this one; may be nil

	Heartbeat time.Duration // between two heartbeats [500 ms]
	Takeover  time.Duration // without a sign of the owner until another node claims a partition [2 s]
	Wait      time.Duration // how long calls wait for an owner [15 s]

	Logger *slog.Logger // nil means none
}

// Transport carries messages between nodes.
type Transport interface {
	// Request sends a message about a partition to another node. Messages to one node about one partition arrive in the order
	// of the calls. wait returns the reply, ErrNoNode if the message has certainly not arrived, or another error.
	Request(ctx context.Context, node string, partition int, data []byte) (wait func() ([]byte, error))
	// Broadcast sends a message to all other nodes. It does not wait, and the message may be lost.
	Broadcast(data []byte)
	// Listen calls request and heard for the messages of other nodes until stop is called; request one after the other for each
	// partition. Neither may block for long. reply is called once, from any goroutine.
	Listen(partitions int, request func(data []byte, reply func([]byte)), heard func(data []byte)) (stop func(), err error)

	SendHeartbeat(h cluster.Heartbeat)
	Heartbeats(f func(cluster.Heartbeat)) (stop func(), err error)
}

// ErrNoNode means that a message has not arrived, because the node is not there.
var ErrNoNode = errors.New("the node is not there")

// Node is this server as a part of a cluster.
type Node struct {
	opt      Options
	log      *slog.Logger
	process  uint64
	journal  *Journal
	sessions *session.Sessions
	files    *Files // nil if there are no files

	parts []*part

	mu    sync.Mutex
	links *links // nil until Run
}

// links is what the node has while it is connected to the others.
type links struct{ transport Transport }

// part is a partition on this node.
type part struct {
	number int
	show   sync.Mutex // held while events and previews of the partition are given to readers

	mu      sync.Mutex
	replica *cluster.Replica // nil until Run
	synced  cluster.Pos
	owned   bool
	present context.Context // ends some time after the epoch
	end     context.CancelFunc
}

// answerTime is how long an answer may take that the owner sent before its epoch ended.
const answerTime = time.Second

// epoch returns a context that ends when the owner of the partition changes, a second after it.
func (p *part) epoch() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.present
}

// nextEpoch ends the context of the epoch before.
func (p *part) nextEpoch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		time.AfterFunc(answerTime, p.end)
	}
	p.present, p.end = context.WithCancel(context.Background())
}

// New returns a node. Run connects it to the others; until then nothing can be written.
func New(opt Options) *Node {
	opt.Wait = cmp.Or(opt.Wait, 15*time.Second)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{opt: opt, log: opt.Logger, process: rand.Uint64() | 1}
	n.journal = &Journal{Journal: opt.Journal, node: n}
	if opt.Files != nil {
		n.files = newFiles(n, opt.Files)
	}
	for i := range opt.Partitions {
		p := &part{number: i}
		p.nextEpoch()
		n.parts = append(n.parts, p)
	}
	return n
}

// Journal returns the journal for the session rules.
func (n *Node) Journal() *Journal { return n.journal }

// Live returns the hub for the session rules: events are published when they are applied, so the rules publish previews
// only.
func (n *Node) Live() *Live { return &Live{n.opt.Hub} }

// Live is a hub to which events are not published.
type Live struct{ *hub.Hub }

// Publish publishes previews.
func (l *Live) Publish(id chat.SessionID, entries []chat.Entry) {
	if len(entries) > 0 && entries[0].Piece != nil {
		l.Hub.Publish(id, entries)
	}
}

// Attach sets the session rules. It is called before Run.
func (n *Node) Attach(s *session.Sessions) { n.sessions = s }

// Name returns the id of the node.
func (n *Node) Name() string { return n.opt.Name }

// Owns reports whether this node owns the session.
func (n *Node) Owns(id chat.SessionID) bool { return n.partOf(id).status().Owns }

// Partition returns the partition of a session.
func (n *Node) Partition(id chat.SessionID) int {
	return cluster.PartitionOf(string(id), n.opt.Partitions)
}

func (n *Node) partOf(id chat.SessionID) *part { return n.parts[n.Partition(id)] }

func (p *part) get() *cluster.Replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replica
}

func (p *part) status() cluster.Status {
	if r := p.get(); r != nil {
		return r.Status()
	}
	return cluster.Status{}
}

// syncEvery is how often what was applied is synced. The log has it, so a crash loses nothing; the copy starts again from what
// it has.
const syncEvery = 200 * time.Millisecond

// Run connects the node to the others over a log and a transport, and follows all partitions until ctx ends or one of them
// cannot be followed any more.
func (n *Node) Run(ctx context.Context, log cluster.Log, t Transport) error {
	copies, err := n.opt.Journal.Copies(ctx)
	if err != nil {
		return fmt.Errorf("read what this node has of the partitions: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	largest := cluster.MaxRecord
	if l, ok := log.(cluster.Limited); ok {
		largest = l.MaxRecord()
	}
	for _, p := range n.parts {
		var have cluster.Copy
		if b := copies[uint16(p.number)]; b != nil {
			if have, err = cluster.ParseCopy(b); err != nil {
				return fmt.Errorf("partition %d: %w", p.number, err)
			}
		}
		rank := 0
		if n.opt.Rank != nil {
			rank = n.opt.Rank(p.number)
		}
		p.mu.Lock()
		p.synced = have.Pos
		p.replica = cluster.NewReplica(cluster.ReplicaOptions{
			Cluster: n.opt.Cluster, Partition: p.number, Node: n.opt.Name, Process: n.process, Log: log, Store: applier{n, p}, Copy: have,
			Send: t.SendHeartbeat, About: n.opt.Describe, Synced: p.syncedPos, Claims: func(cluster.Status) {
				p.nextEpoch()
				tasks.Go(func() { n.ownerChanged(ctx, p) })
			},
			MayOwn:    func() bool { return n.opt.Journal.Writable() == nil },
			MaxRecord: largest, Rank: rank, Heartbeat: n.opt.Heartbeat, Takeover: n.opt.Takeover, Logger: n.opt.Logger,
		})
		p.mu.Unlock()
	}
	stop, err := t.Heartbeats(func(h cluster.Heartbeat) {
		if h.Partition >= 0 && h.Partition < len(n.parts) {
			n.parts[h.Partition].get().Heard(h)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	stop, err = t.Listen(len(n.parts), n.serve(ctx, &tasks), n.heard(ctx))
	if err != nil {
		return err
	}
	defer stop()
	n.mu.Lock()
	n.links = &links{t}
	n.mu.Unlock()
	ended := make(chan error, len(n.parts)+1)
	for _, p := range n.parts {
		tasks.Go(func() { ended <- p.get().Run(ctx) })
	}
	tasks.Go(func() { ended <- n.sync(ctx) })
	tasks.Go(func() { n.rebalance(ctx) })
	if n.files != nil {
		tasks.Go(func() { n.files.run(ctx) })
	}
	err = <-ended
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sync syncs the journal while there is something to sync.
func (n *Node) sync(ctx context.Context) error {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		applied := make([]cluster.Pos, len(n.parts))
		more := false
		for i, p := range n.parts {
			applied[i] = p.status().Copy.Pos
			more = more || applied[i] > p.syncedPos()
		}
		if !more {
			continue
		}
		if err := n.opt.Journal.Sync(); err != nil {
			return fmt.Errorf("sync what was applied: %w", err)
		}
		for i, p := range n.parts {
			p.mu.Lock()
			p.synced = applied[i]
			p.mu.Unlock()
		}
	}
}

func (p *part) syncedPos() cluster.Pos {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.synced
}

// ownerChanged tells the server that it has become the owner of a partition, or is not the owner any more. Calls for one
// partition may come at the same time; the last one sees the newest status.
func (n *Node) ownerChanged(ctx context.Context, p *part) {
	p.mu.Lock()
	st := p.replica.Status()
	before := p.owned
	p.owned = st.Owns
	p.mu.Unlock()
	switch {
	case st.Owns:
		n.sessions.TookOver()
		ids, err := n.working(ctx, p)
		if err != nil {
			n.log.Error("the sessions with work could not be found; their turns are resumed when the partition gets a new owner", "partition", p.number, "err", err)
			return
		}
		if n.opt.TookOver != nil {
			n.opt.TookOver(ids, st.Copy.Claim.Handover)
		}
	case before && n.opt.Lost != nil:
		n.opt.Lost(func(id chat.SessionID) bool { return n.Partition(id) == p.number })
	}
}

// working returns the sessions of a partition that have work.
func (n *Node) working(ctx context.Context, p *part) (ids []chat.SessionID, err error) {
	for id, err := range n.opt.Journal.Working(ctx) {
		if err != nil {
			return nil, err
		}
		if n.Partition(id) == p.number {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// PartitionStatus is what this node knows of a partition.
type PartitionStatus struct {
	Partition int
	Copy      cluster.Copy
	Owns      bool
	Synced    cluster.Pos
	Peers     []cluster.Heartbeat // the last one of each other node
}

// Status returns what this node knows of the partitions.
func (n *Node) Status() []PartitionStatus {
	all := make([]PartitionStatus, len(n.parts))
	for i, p := range n.parts {
		st := p.status()
		all[i] = PartitionStatus{Partition: i, Copy: st.Copy, Owns: st.Owns, Synced: p.syncedPos()}
		if r := p.get(); r != nil {
			all[i].Peers = r.Peers()
		}
	}
	return all
}

// rebalanceEvery is how often a node looks for partitions that another node should own.
const rebalanceEvery = 5 * time.Second

// rebalance gives partitions without work to the nodes that come before this one in their rank, so that the nodes share the work
// again after one of them was away.
func (n *Node) rebalance(ctx context.Context) {
	for pause(ctx, rebalanceEvery) == nil {
		for _, p := range n.parts {
			if to := n.preferred(p); to != "" {
				if busy, err := n.working(ctx, p); err != nil || len(busy) > 0 {
					continue
				}
				limit, cancel := context.WithTimeout(ctx, rebalanceEvery)
				if err := p.get().HandOver(limit, to); err != nil && ctx.Err() == nil {
					n.log.Info("a partition could not be given to another node", "partition", p.number, "node", to, "err", err)
				}
				cancel()
			}
		}
	}
}

// preferred returns the node that should own a partition of this node, "" if that is this node.
func (n *Node) preferred(p *part) string {
	r := p.get()
	st := r.Status()
	if !st.Owns || n.opt.Rank == nil {
		return ""
	}
	best, name := n.opt.Rank(p.number), ""
	for _, h := range r.Peers() {
		fresh := time.Since(h.Heard) < rebalanceEvery/2
		if fresh && h.Ready && h.Epoch == st.Copy.Epoch && h.Pos+16 >= st.Copy.Pos && h.Rank < best {
			best, name = h.Rank, h.Node
		}
	}
	return name
}

// HandOver gives the partitions of this node to other nodes, so that they go on at once when this one ends.
func (n *Node) HandOver(ctx context.Context) error {
	var errs []error
	for _, p := range n.parts {
		r := p.get()
		if r == nil || !r.Status().Owns {
			continue
		}
		peers := r.Peers()
		if len(peers) == 0 {
			errs = append(errs, fmt.Errorf("partition %d: no other node is there", p.number))
			continue
		}
		best := peers[0]
		for _, h := range peers {
			if h.Pos > best.Pos {
				best = h
			}
		}
		if err := r.HandOver(ctx, best.Node); err != nil && !errors.Is(err, cluster.ErrNotOwner) {
			errs = append(errs, fmt.Errorf("partition %d: %w", p.number, err))
		}
	}
	return errors.Join(errs...)
}
