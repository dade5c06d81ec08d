package node

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
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
	Shared     artifact.Blobs  // the bytes of files, in a store that all nodes use, instead of Files; nil means none

	Clean bool // the process of this node before this one ended in order

	// TookOver is called when this node has become the owner of sessions that have work. handover says that the owner before
	// it gave them up in order, or was stopped in order. Lost is called when another node has become the owner of the sessions for which owned
	// returns true. Neither may block.
	TookOver func(ids []chat.SessionID, handover bool)
	Lost     func(owned func(chat.SessionID) bool)

	// Compact removes the frames of a partition's log up to a position from the files of this node, after the log was trimmed;
	// nil means that it has none.
	Compact   func(ctx context.Context, partition int, upTo cluster.Pos) error
	EraseNote string // added to the receipts of erasures; may be empty

	// MayOwn returns why this node must not claim partitions; nil allows it.
	MayOwn func() error

	// Damage returns an error when the store has turned out to be damaged. Then Run ends with it as soon as the other nodes can go on
	// without this one, so that the store can be replaced. It may be nil.
	Damage func() error

	Drained func(ctx context.Context) // called when this node was drained; may be nil
	Now     func() time.Time          // the clock of the node, for tests; nil means time.Now

	ToDialects func(data []byte) // receives what another node sent with BroadcastToDialects; must not block; may be nil

	Describe func(*cluster.Heartbeat) // sets what other nodes show of this one; may be nil

	Heartbeat time.Duration // between two heartbeats [500 ms]
	Takeover  time.Duration // without a sign of the owner until another node claims a partition [2 s]
	Wait      time.Duration // how long calls wait for an owner [15 s]
	Busy      time.Duration // how long running turns keep a partition from a node that should own it and owns none [1 min]
	Pin       time.Duration // how long bytes are kept for a commit of which this node does not know the outcome [2 min]
	Unused    time.Duration // until bytes in Shared that no path has any more are removed [30 s]

	// Folder is where checkpoints for nodes without a store are made, on the disk of the journal; "" means that this node sends
	// none. The names of their folders begin with FolderPrefix. MaySend returns why this node must not send its store; it may
	// be nil.
	Folder, FolderPrefix string
	MaySend              func() error

	Trim cluster.TrimRule // how much of the logs is kept

	Logger *slog.Logger // nil means none
}

// Node is this server as a part of a cluster.
type Node struct {
	opt      Options
	log      *slog.Logger
	journal  *Journal
	sessions *session.Sessions
	files    *Files // nil if there are no files
	peer     Peer   // nil if there is none

	parts    []*part
	outgoing outgoing
	draining atomic.Bool
	stopping atomic.Bool
	metrics  *metrics

	confirmTime time.Duration // see confirmOwner
	gatherTime  time.Duration // see gatherText
	purgeTime   time.Duration // see purge

	clockMu sync.Mutex
	clocks  cluster.Clocks

	begun    time.Time // when Run was called
	caughtUp atomic.Bool
	current  atomic.Int64 // see watchAge

	mu        sync.Mutex
	transport Transport   // nil until Run
	logs      cluster.Log // nil until Run
}

// partitions returns the log of the partitions, nil until Run.
func (n *Node) partitions() cluster.Log {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logs
}

// others returns the connection to the other nodes, nil until Run.
func (n *Node) others() Transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.transport
}

// New returns a node. Run connects it to the others; until then nothing can be written.
func New(opt Options) *Node {
	opt.Trim = opt.Trim.WithDefaults()
	opt.Wait, opt.Pin, opt.Unused = cmp.Or(opt.Wait, 15*time.Second), cmp.Or(opt.Pin, 2*time.Minute), cmp.Or(opt.Unused, 30*time.Second)
	opt.Takeover, opt.Busy = cmp.Or(opt.Takeover, 2*time.Second), cmp.Or(opt.Busy, time.Minute)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{opt: opt, log: opt.Logger, metrics: newMetrics(), confirmTime: confirmTime, gatherTime: gatherTime, purgeTime: purgeTime}
	n.journal = &Journal{Journal: opt.Journal, node: n}
	if opt.Files != nil {
		n.files = newFiles(n, opt.Files, opt.Shared)
	}
	for i := range opt.Partitions {
		p := &part{number: i, order: previewOrder{late: previewLate}}
		p.nextEpoch("")
		n.parts = append(n.parts, p)
	}
	return n
}

// NewSessions returns the session rules of this node. It is called once, before Run.
func (n *Node) NewSessions(opt session.Options) *session.Sessions {
	opt.OtherNodes = n
	n.sessions = session.New(n.journal, live{n.opt.Hub, n}, opt)
	return n.sessions
}

// live is a hub to which only previews are published: events are published when they are applied.
type live struct {
	*hub.Hub
	node *Node
}

// Publish publishes previews that the owner has decided, unless another node has become the owner meanwhile. Then they are in the text of that
// node, and this one gets them from there: its readers must not see them after events of the new owner.
func (l live) Publish(id chat.SessionID, entries []core.Entry) {
	if len(entries) == 0 || entries[0].Piece == nil {
		return
	}
	p := l.node.partOf(id)
	p.showOwnMu.RLock()
	defer p.showOwnMu.RUnlock()
	if p.status().Owns {
		l.Hub.Publish(id, entries)
	}
}

// Following reports whether the node is connected to the others, so that it can answer them.
func (n *Node) Following() bool { return n.others() != nil }

// Name returns the id of the node.
func (n *Node) Name() string { return n.opt.Name }

// Owns reports whether this node owns the session.
func (n *Node) Owns(id chat.SessionID) bool { return n.partOf(id).status().Owns }

// Partition returns the partition of a session.
func (n *Node) Partition(id chat.SessionID) int {
	return cluster.PartitionOf(string(id), n.opt.Partitions)
}

func (n *Node) partOf(id chat.SessionID) *part { return n.parts[n.Partition(id)] }
