package node

import (
	"context"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

// part is a partition on this node.
type part struct {
	number      int
	purging     sync.Mutex   // held while the log is purged
	purged      time.Time    // when the log may be purged again; purging guards it
	showMu      sync.Mutex   // held while events and previews are stored and shown, except the previews of this node as the owner
	showOwnMu   sync.RWMutex // held for reading while those are shown; for writing, with showMu, while events of another owner are
	order       previewOrder
	unstored    unstoredTexts
	catchUp     sharedQuestion  // how far the owner is
	readLog     sharedQuestion  // how far the log is
	catchUpText sharedQuestions // what unfinished text the owner has
	turnsMu     sync.Mutex      // held while turns are released or resumed
	turnsOf     uint64          // the epoch whose turns run here, 0 if none do; turnsMu guards it

	mu         sync.Mutex
	replica    *cluster.Replica       // nil until Run
	options    cluster.ReplicaOptions // of the replica
	process    uint64                 // of the replica
	stop       context.CancelFunc     // of the replica; nil before the first one runs
	halting    bool                   // Halt was called
	halted     error                  // why the partition is not followed; nil while it is
	drop       bool                   // the copy of this node must be replaced
	changed    chan struct{}          // closed when halting or halted changes; nil if nobody waits
	synced     cluster.Pos
	samples    []sample        // of the position, oldest first
	erased     cluster.Pos     // of the last erasure that the log may still have; 0 if there is none
	owner      string          // the node that owns the partition
	former     string          // the node that owned it before
	readyEpoch uint64          // the last epoch in which this node was the owner and had the text of the others
	epochCtx   context.Context // ends some time after the epoch
	endEpoch   context.CancelFunc
}

// answerTime is how long an answer may take that the owner sent before its epoch ended.
const answerTime = time.Second

// epochContext returns a context that ends one second after the owner of the partition changes.
func (p *part) epochContext() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epochCtx
}

// nextEpoch notes the owner of a new epoch and ends the context of the epoch before.
func (p *part) nextEpoch(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endEpoch != nil {
		time.AfterFunc(answerTime, p.endEpoch)
	}
	p.epochCtx, p.endEpoch = context.WithCancel(context.Background())
	p.owner, p.former = owner, p.owner
}

// formerOwner returns the node that owned the partition before its owner, "" if that is not known.
func (p *part) formerOwner() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.former
}

func (p *part) get() *cluster.Replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replica
}

// status returns what is known of the partition. A new owner owns it when it has the text of the others.
func (p *part) status() cluster.Status {
	p.mu.Lock()
	r, ready := p.replica, p.readyEpoch
	p.mu.Unlock()
	if r == nil {
		return cluster.Status{}
	}
	st := r.Status()
	st.Owns = st.Owns && st.Copy.Epoch == ready
	return st
}

// beginOwning makes this node the owner in an epoch that it has claimed.
func (p *part) beginOwning(epoch uint64) {
	p.showMu.Lock() // no text of other nodes is being stored
	defer p.showMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readyEpoch = max(p.readyEpoch, epoch)
}

func (p *part) syncedPos() cluster.Pos {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.synced
}

// erasedPos returns the position of the last erasure that the log may still have, 0 if there is none.
func (p *part) erasedPos() cluster.Pos {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.erased
}

// voided is called after records that do not count. A former owner that was paused or cut off sends its last frame when it is back; it may
// have text of a session that was erased meanwhile, so the log has to be purged again.
func (p *part) voided(pos cluster.Pos) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erased = pos
}

// PartitionStatus is what this node knows of a partition.
type PartitionStatus struct {
	Partition int
	Copy      cluster.Copy
	Owns      bool
	Synced    cluster.Pos
	Halted    error               // why the partition accepts no writes on this node; nil if it does
	Peers     []cluster.Heartbeat // the last one of each other node
}

// Status returns what this node knows of the partitions.
func (n *Node) Status() []PartitionStatus {
	all := make([]PartitionStatus, len(n.parts))
	for i, p := range n.parts {
		st := p.status()
		all[i] = PartitionStatus{Partition: i, Copy: st.Copy, Owns: st.Owns, Synced: p.syncedPos(), Halted: p.haltedBy()}
		if r := p.get(); r != nil {
			all[i].Peers = r.Peers()
		}
	}
	return all
}
