package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
)

const (
	simulatedTime     = 40 * time.Second // with faults
	simulatedSessions = 4
)

// keptSeeds are those of schedules that once found a fault.
var keptSeeds = []uint64{}

// TestSimulatedNodesKeepTheirCopiesEqual runs three nodes over a log with faults, with a fake clock: processes are killed and
// start again with older copies, are cut off from the log or from each other, and hand their partition over. It runs the
// same schedules each time, or new ones for as long as PARLEY_EXPLORE says (1h). A failure prints its seed.
func TestSimulatedNodesKeepTheirCopiesEqual(t *testing.T) {
	seeds := append(slices.Clone(keptSeeds), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	limit, err := time.ParseDuration(os.Getenv("PARLEY_EXPLORE"))
	if err == nil {
		seeds = append(seeds, rand.Uint64())
	}
	var total counts
	begin, runs := time.Now(), 0
	for ; runs < len(seeds) || time.Since(begin) < limit; runs++ {
		seed := seeds[min(runs, len(seeds)-1)] + uint64(max(0, runs-len(seeds)+1))
		var c counts
		synctest.Test(t, func(t *testing.T) { c = simulate(t, seed) })
		total.add(c)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d runs from seed %d in %s: %+v", runs, seeds[len(seeds)-1], time.Since(begin).Round(time.Second), total)
}

// counts says what happened in a simulation.
type counts struct {
	acknowledged, refused, lost, unknown, frames, epochs, void, kills, cuts, handovers, copies int
}

func (c *counts) add(o counts) {
	c.acknowledged += o.acknowledged
	c.refused += o.refused
	c.lost += o.lost
	c.unknown += o.unknown
	c.frames += o.frames
	c.epochs += o.epochs
	c.void += o.void
	c.kills += o.kills
	c.cuts += o.cuts
	c.handovers += o.handovers
	c.copies += o.copies
}

// simulation is a cluster with one partition.
type simulation struct {
	t      *testing.T
	ctx    context.Context
	random *rand.Rand // of the faults
	log    *clustertest.Log
	procs  sync.WaitGroup
	counts counts

	mu     sync.Mutex
	nodes  [3]*process
	beats  *rand.Rand // of the heartbeats
	lossy  float64    // share of the heartbeats that are lost
	nextID uint64
	starts uint64
	fates  map[uint64]fate
}

type fate struct {
	err error
	pos cluster.Pos
}

// process is a node from its start to its end.
type process struct {
	w       *simulation
	i       int
	store   *memory
	view    *clustertest.View
	replica *cluster.Replica
	cancel  context.CancelFunc
	ended   chan struct{}
	deaf    bool // its heartbeats are lost in both directions; guarded by simulation.mu
}

func simulate(t *testing.T, seed uint64) counts {
	ctx, cancel := context.WithCancel(t.Context())
	w := &simulation{t: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 1)), beats: rand.New(rand.NewPCG(seed, 2)), fates: map[uint64]fate{}}
	rng := w.random
	part := func() float64 { return rng.Float64() * 0.2 }
	w.lossy = part()
	w.log = clustertest.New(seed, 1, clustertest.Faults{Delay: time.Duration(1+rng.IntN(40)) * time.Millisecond, LostAck: part(), Late: part(), Lost: part(), Repeat: part()})
	for i := range w.nodes {
		w.start(i, &memory{}, nil)
	}
	var writers sync.WaitGroup
	writing, stopWriting := context.WithCancel(ctx)
	for i := range w.nodes {
		for s := range byte(simulatedSessions) {
			writers.Go(func() { w.write(writing, i, s) })
		}
	}
	for end := time.Now().Add(simulatedTime); time.Now().Before(end) && !t.Failed(); {
		time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
		w.fault()
	}
	time.Sleep(15 * time.Second) // the faults that were begun end
	w.heal()
	if !t.Failed() {
		w.finalWrite()
	}
	stopWriting()
	for i := range w.nodes { // answers what is on its way
		w.stop(i)
	}
	writers.Wait()
	time.Sleep(10 * time.Second) // late frames arrive
	for i := range w.nodes {
		w.start(i, w.node(i).store, nil)
	}
	if !t.Failed() {
		w.check()
	}
	cancel()
	w.procs.Wait()
	return w.counts
}

func (w *simulation) node(i int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[i]
}

// start starts the process of a node with what is in a store. If before is given, it must be the last process of the node.
func (w *simulation) start(i int, store *memory, before *process) {
	ctx, cancel := context.WithCancel(w.ctx)
	p := &process{w: w, i: i, store: store, cancel: cancel, ended: make(chan struct{})}
	p.view = w.log.View(fmt.Sprint("n", i))
	w.mu.Lock()
	if before != nil && before != w.nodes[i] {
		w.mu.Unlock()
		cancel()
		return
	}
	w.starts++
	p.replica = cluster.NewReplica(cluster.ReplicaOptions{
		Cluster: "c", Node: fmt.Sprint("n", i), Process: w.starts, Log: p.view, Store: store, Copy: store.copy, Send: p.send, Rank: int(w.starts % 2),
	})
	w.nodes[i] = p
	w.mu.Unlock()
	w.procs.Go(func() {
		err := p.replica.Run(ctx)
		close(p.ended)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, cluster.ErrTrimmed):
			w.copyTo(p)
		default:
			w.t.Errorf("n%d ended: %v", i, err)
		}
	})
}

// copyTo starts the node of a process again, with the copy of another node.
func (w *simulation) copyTo(p *process) {
	from := w.node((p.i + 1) % 3)
	if other := w.node((p.i + 2) % 3); other.replica.Status().Copy.Pos > from.replica.Status().Copy.Pos {
		from = other
	}
	w.mu.Lock()
	w.counts.copies++
	w.mu.Unlock()
	w.start(p.i, from.store.earlier(0), p)
}

func (w *simulation) stop(i int) {
	p := w.node(i)
	p.cancel()
	<-p.ended
}

// send sends a heartbeat to the other nodes.
func (p *process) send(h cluster.Heartbeat) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, to := range w.nodes {
		if i == p.i || to == nil || to.deaf || p.deaf || w.beats.Float64() < w.lossy {
			continue
		}
		time.AfterFunc(time.Duration(w.beats.IntN(int(100*time.Millisecond))), func() { w.node(i).replica.Heard(h) })
	}
}

// write writes to one session through one node for as long as the test runs.
func (w *simulation) write(ctx context.Context, i int, session byte) {
	for ctx.Err() == nil {
		w.mu.Lock()
		p := w.nodes[i]
		w.nextID++
		id := w.nextID
		w.mu.Unlock()
		pos, err := p.replica.Commit(record(id, session, p.store.after(session)))
		w.mu.Lock()
		w.fates[id] = fate{err, pos}
		w.mu.Unlock()
		if err != nil {
			time.Sleep(time.Duration(50+i) * time.Millisecond)
		}
	}
}

// fault does one thing that goes wrong.
func (w *simulation) fault() {
	i := w.random.IntN(3)
	p := w.node(i)
	span := time.Duration(w.random.Int64N(int64(12 * time.Second)))
	switch w.random.IntN(6) {
	case 0, 1:
		w.counts.kills++
		w.stop(i)
		back := w.random.IntN(20)
		if w.random.IntN(4) == 0 {
			back = w.random.IntN(2000)
		}
		if w.random.IntN(2) == 0 {
			time.Sleep(span / 2)
		}
		w.start(i, w.node(i).store.earlier(back), nil)
	case 2: // cut off, or paused
		w.counts.cuts++
		p.view.Cut(true)
		p.setDeaf(true)
		time.AfterFunc(span, func() { p.view.Cut(false); p.setDeaf(false) })
	case 3: // cut off from the other nodes only: they claim while the owner writes
		w.counts.cuts++
		p.setDeaf(true)
		time.AfterFunc(span, func() { p.setDeaf(false) })
	case 4:
		for o := range 3 {
			if o := w.node(o); o.replica.Status().Owns {
				ctx, cancel := context.WithTimeout(w.ctx, span)
				if err := o.replica.HandOver(ctx, fmt.Sprint("n", (o.i+1+w.random.IntN(2))%3)); err == nil {
					w.counts.handovers++
				}
				cancel()
				break
			}
		}
	case 5:
		low := p.replica.Status().Copy.Pos
		for o := range 3 {
			low = min(low, w.node(o).replica.Status().Copy.Pos)
		}
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if err := p.view.Trim(ctx, 0, low-min(low, 30)); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	}
}

func (p *process) setDeaf(deaf bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.deaf = deaf
}

// heal ends all faults.
func (w *simulation) heal() {
	w.log.SetFaults(clustertest.Faults{Delay: time.Millisecond})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lossy = 0
	for _, p := range w.nodes {
		p.deaf = false
		p.view.Cut(false)
	}
}

// finalWrite expects that a healthy cluster accepts a write soon.
func (w *simulation) finalWrite() {
	begin := time.Now()
	acknowledged := func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, f := range w.fates {
			if f.err == nil {
				n++
			}
		}
		return n
	}
	for before := acknowledged(); acknowledged() == before; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			w.t.Error("no write was acknowledged for 30 s in a healthy cluster")
			return
		}
	}
}

// check compares the answers and the copies with the log as a reader without a past sees it.
func (w *simulation) check() {
	last := cluster.Pos(len(w.log.History(0)))
	for i := range w.nodes {
		for {
			ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
			err := w.node(i).replica.Reached(ctx, last)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, cluster.ErrStopped) {
				w.t.Errorf("n%d does not reach position %d: %v", i, last, err)
				return
			}
			time.Sleep(time.Second) // it gets a copy
		}
	}
	var c cluster.Copy
	where := map[uint64]cluster.Pos{}
	var want []stored
	for i, b := range w.log.History(0)[:last] {
		f, err := cluster.ParseFrame(b)
		if err != nil {
			w.t.Fatal(err)
		}
		var v cluster.Verdict
		c, v = c.Apply(cluster.Pos(i+1), f)
		if v != cluster.Counts {
			w.counts.void++
			continue
		}
		w.counts.frames++
		for _, r := range f.Records {
			id, session, _ := parseRecord(r)
			if where[id] != 0 {
				w.t.Errorf("record %d is applied twice", id)
			}
			where[id] = c.Pos
			want = append(want, stored{c.Pos, id, session})
		}
	}
	w.counts.epochs = int(c.Epoch)
	for i, p := range w.nodes {
		p.store.mu.Lock()
		n := 0
		for n < len(p.store.data) && p.store.data[n].pos <= last {
			n++
		}
		if got := p.store.data[:n]; !slices.Equal(got, want) {
			w.t.Errorf("n%d has %d records, the log has %d", i, len(got), len(want))
		}
		p.store.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.fates)) {
		switch f := w.fates[id]; {
		case f.err == nil:
			w.counts.acknowledged++
			if where[id] != f.pos {
				w.t.Errorf("record %d was acknowledged at position %d and is at %d", id, f.pos, where[id])
			}
		case errors.Is(f.err, cluster.ErrStopped):
			w.counts.unknown++
		case errors.Is(f.err, cluster.ErrLost):
			w.counts.lost++
			if where[id] != 0 {
				w.t.Errorf("record %d was reported lost and is at position %d", id, where[id])
			}
		default:
			w.counts.refused++
			if where[id] != 0 {
				w.t.Errorf("record %d was refused and is at position %d", id, where[id])
			}
		}
	}
}
