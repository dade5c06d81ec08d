package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Store is the data of a partition on one node.
type Store interface {
	// Apply stores the records of a frame together with the copy after it: all of it or nothing. It is called for every position
	// of the log, in order; records is empty for claims and for void frames. The records are valid during the call only.
	//
	// refused has an element for each record: nil, or why the record does not fit the data and was left out. It depends on
	// nothing but the data and the frame, so that equal copies refuse the same. A nil slice refuses nothing. An error stops the
	// replica.
	Apply(records []Record, c Copy) (refused []error, err error)
}

const (
	// MaxRecord is the size of the largest record: more than the events of the largest request take.
	MaxRecord = 12 << 20

	// MaxOverhead is more than a frame has beside its records' data, if it has one record of that size.
	MaxOverhead = 4 << 10
)

var (
	// ErrNotOwner means that the record was not accepted: this process does not own the partition, or hands it over.
	ErrNotOwner = errors.New("this process does not own the partition")

	// ErrLost means that the record is not applied on any node and never will be: another process owns the partition.
	ErrLost = errors.New("another process took the partition over before the record was stored")

	// ErrStopped means that this process stopped following the partition while the record was on its way. Like after a crash,
	// the log alone says whether the record counts.
	ErrStopped = errors.New("this process stopped following the partition")

	// ErrDamaged means that this copy does not match the log. It must be replaced by the copy of another node.
	ErrDamaged = errors.New("the copy of the partition does not match its log")

	// ErrTooLarge means that a record is larger than the log takes. It was not accepted.
	ErrTooLarge = errors.New("a record is larger than the log takes")
)

// Heartbeat tells the other nodes that a process is running. Heartbeats may be lost; they decide only when a node claims a
// partition, never what counts.
type Heartbeat struct {
	Partition int
	Node      string
	Process   uint64
	Epoch     uint64 // the last one that the process has read
	Owner     bool   // the process owns the partition in that epoch
	Pos       Pos    // what the process has applied
	Synced    Pos    // what its disk has
	Rank      int    // see ReplicaOptions

	URL     string    // where clients reach the node
	Version string    // of its program
	Ready   bool      // it serves clients
	Barred  string    // why it must not own partitions; "" if it may
	Sent    time.Time // by its clock
	Free    uint64    // bytes of its disk
	Heard   time.Time `json:"-"` // when this node got it

	Clean    bool // the process of the node before this one ended in order
	Stopping bool // the process is being stopped in order
}

// ReplicaOptions are the settings of a Replica. Times that are 0 have the value in brackets.
type ReplicaOptions struct {
	Cluster   string
	Partition int
	Node      string
	Process   uint64 // 0 means a random one
	Log       Log
	Store     Store
	Copy      Copy // what Store has

	Send   func(Heartbeat)  // sends to the other nodes; must not block; nil sends nothing
	About  func(*Heartbeat) // sets what the replica does not know, such as URL and Ready; may be nil
	Synced func() Pos       // returns what the store has on disk; nil means what was applied
	MayOwn func() bool      // reports whether this process may claim the partition; nil means always
	Claims func(Status)     // called after a claim has been applied; must not block; may be nil
	Void   func(pos Pos)    // called after records that do not count, for example those of a former owner; must not block; may be nil

	Clean     bool          // the process of this node before this one ended in order
	MaxRecord int           // size of the largest record that Log takes [MaxRecord]
	Rank      int           // nodes with a lower rank claim earlier
	Heartbeat time.Duration // between two heartbeats [500 ms]
	Takeover  time.Duration // how long the owner may be silent before rank 0 claims; each next rank waits half as long again [2 s]

	Meter  Meter        // nil means none
	Logger *slog.Logger // nil means none
}

// Status says what a replica has applied. A replica whose Run has ended owns nothing.
type Status struct {
	Copy Copy
	Owns bool // this process owns the partition
}

// Replica keeps one partition on one node. It applies the log to a Store and, while its process owns the partition, appends
// the records that are submitted. All methods may be called at the same time.
type Replica struct {
	opt ReplicaOptions
	log *slog.Logger

	wake     chan struct{} // something was submitted or heard
	handover chan *handover
	quieting chan *quiet
	appended chan *pendingFrame
	ended    chan struct{} // closed when Run has ended

	mu        sync.Mutex
	submitted []submission
	enough    int                  // so many submissions wake Run
	peers     map[string]Heartbeat // the last one of each other node
	ownerSeen time.Time            // when the owner was last heard
	stopped   bool
	status    Status
	waiting   bool          // somebody waits for advanced
	advanced  chan struct{} // closed when status changes

	// Only Run uses the rest.
	ctx          context.Context
	tasks        sync.WaitGroup
	part         *Partition
	pending      map[Ticket]submission
	pendingFrame *pendingFrame
	failed       int // appends in a row
	leaving      *handover
	quiet        *quiet // nil while records are sent
	ticked       time.Time

	expected int         // records that the next frame will have if all whose records were applied submit another one
	until    time.Time   // how long the next frame waits for them
	batch    *time.Timer // ends at until, while the next frame waits
	missing  int         // records for which the next frame waits; 0 if it does not wait
}

type submission struct {
	record Record
	done   func(Pos, error)
	at     time.Time
}

type handover struct {
	ctx  context.Context
	to   Heartbeat
	done chan error
}

// quiet is a time in which this process sends no frames.
type quiet struct {
	began chan error // gets nil when no frame is on its way
	pos   Pos        // the last position, set before
	told  bool
	ended chan struct{} // closed by the caller
}

// pendingFrame is a frame that this process wants in the log.
type pendingFrame struct {
	frame  *Frame
	begun  time.Time
	cancel context.CancelFunc
	tries  int
	again  time.Time // when it is appended again; zero while an append is running
	err    error     // of the last append
}

// NewReplica returns a replica. Run starts it.
func NewReplica(opt ReplicaOptions) *Replica {
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 500*time.Millisecond)
	opt.Takeover = cmp.Or(opt.Takeover, 2*time.Second)
	opt.MaxRecord = cmp.Or(opt.MaxRecord, MaxRecord)
	for opt.Process == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		opt.Process = binary.BigEndian.Uint64(b[:])
	}
	if opt.Meter == nil {
		opt.Meter = noMeter{}
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Replica{
		opt: opt, log: opt.Logger.With("partition", opt.Partition),
		wake: make(chan struct{}, 1), handover: make(chan *handover), quieting: make(chan *quiet), appended: make(chan *pendingFrame), ended: make(chan struct{}),
		peers: map[string]Heartbeat{}, status: Status{Copy: opt.Copy}, advanced: make(chan struct{}),
		part:    newPartition(opt.Cluster, uint16(opt.Partition), opt.Node, opt.Process, opt.Copy),
		pending: map[Ticket]submission{},
	}
}

// Submit appends a record to the log. done is called once: with the position of the record after it was applied here; with
// ErrLost, ErrNotOwner, ErrTooLarge or the refusal of the store, after which it is not applied on any node, now or later; or
// with ErrStopped. done must not block.
func (r *Replica) Submit(record Record, done func(Pos, error)) {
	if len(record.Data) > r.opt.MaxRecord {
		done(0, ErrTooLarge)
		return
	}
	r.mu.Lock()
	stopped, owns := r.stopped, r.status.Owns
	if !stopped && owns {
		r.submitted = append(r.submitted, submission{record, done, time.Now()})
	}
	enough := len(r.submitted) >= r.enough
	r.mu.Unlock()
	switch {
	case stopped || !owns:
		done(0, ErrNotOwner)
	case enough:
		r.notify()
	}
}

// Commit is Submit for callers that wait. It has no context, because the outcome of a record is not known before Submit says
// it.
func (r *Replica) Commit(record Record) (Pos, error) {
	type result struct {
		pos Pos
		err error
	}
	c := make(chan result, 1)
	r.Submit(record, func(p Pos, err error) { c <- result{p, err} })
	got := <-c
	return got.pos, got.err
}

// Heard takes the heartbeat of another node.
func (r *Replica) Heard(h Heartbeat) {
	if h.Partition != r.opt.Partition || h.Node == r.opt.Node {
		return
	}
	r.mu.Lock()
	h.Heard = time.Now()
	r.peers[h.Node] = h
	owner := h.Owner && h.Epoch >= r.status.Copy.Epoch
	if owner {
		r.ownerSeen = time.Now()
	}
	r.mu.Unlock()
	if owner {
		r.notify()
	}
}

// Forget drops what was heard of a node.
func (r *Replica) Forget(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.peers, node)
}

// Peers returns the last heartbeat of each other node.
func (r *Replica) Peers() (all []Heartbeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.peers {
		all = append(all, h)
	}
	return all
}

// Status returns what was applied.
func (r *Replica) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Reached waits until the position is applied here.
func (r *Replica) Reached(ctx context.Context, pos Pos) error {
	for {
		r.mu.Lock()
		have, stopped, advanced := r.status.Copy.Pos, r.stopped, r.advanced
		r.waiting = true
		r.mu.Unlock()
		switch {
		case have >= pos:
			return nil
		case stopped:
			return ErrStopped
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// HandOver gives the partition to another node that has sent a heartbeat. It refuses new records, waits until those on their
// way are applied, and returns when the claim of the other node counts. If ctx ends before, this process goes on as the
// owner, unless the claim is in the log.
func (r *Replica) HandOver(ctx context.Context, node string) error {
	r.mu.Lock()
	to, ok := r.peers[node]
	r.mu.Unlock()
	if !ok {
		return fmt.Errorf("node %s has sent no heartbeat", node)
	}
	h := &handover{ctx, to, make(chan error, 1)}
	select {
	case r.handover <- h:
	case <-r.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Quiet calls f while the owner sends no frames; records that are submitted wait. f gets the last position that was applied. It
// should take some milliseconds.
func (r *Replica) Quiet(ctx context.Context, f func(Pos) error) error {
	q := &quiet{began: make(chan error, 1), ended: make(chan struct{})}
	select {
	case r.quieting <- q:
	case <-r.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	defer close(q.ended)
	select {
	case err := <-q.began:
		if err != nil {
			return err
		}
	case <-r.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	return f(q.pos)
}

func (r *Replica) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
