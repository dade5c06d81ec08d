package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
)

// group is a cluster without faults.
type group struct {
	log      *clustertest.Log
	stores   [3]*memory
	replicas [3]*cluster.Replica
	ended    [3]chan error
	change   func(i int, o *cluster.ReplicaOptions)
}

// run starts three nodes and calls f inside a bubble with a fake clock.
func run(t *testing.T, change func(i int, o *cluster.ReplicaOptions), f func(t *testing.T, g *group)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := &group{log: clustertest.New(1, 1, clustertest.Faults{Delay: 2 * time.Millisecond}), change: change}
		var tasks sync.WaitGroup
		for i := range g.replicas {
			g.stores[i] = &memory{}
			o := cluster.ReplicaOptions{Cluster: "c", Node: fmt.Sprint("n", i), Log: g.log.View(fmt.Sprint("n", i)), Store: g.stores[i], Rank: i}
			o.Send = func(h cluster.Heartbeat) {
				for _, r := range g.replicas {
					r.Heard(h)
				}
			}
			if change != nil {
				change(i, &o)
			}
			g.replicas[i], g.ended[i] = cluster.NewReplica(o), make(chan error, 1)
		}
		for i, r := range g.replicas {
			tasks.Go(func() { g.ended[i] <- r.Run(ctx) })
		}
		f(t, g)
		cancel()
		tasks.Wait()
	})
}

// owner waits until a node owns the partition.
func (g *group) owner(t *testing.T) int {
	t.Helper()
	for range 1000 {
		for i, r := range g.replicas {
			if r.Status().Owns {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody owns the partition")
	return 0
}

func TestTheNodeOfTheLowestRankOwnsANewPartition(t *testing.T) {
	run(t, nil, func(t *testing.T, g *group) {
		if o := g.owner(t); o != 0 {
			t.Errorf("n%d owns the partition", o)
		}
	})
}

// A node that is heard has applied position 5, and the log is empty: it has lost something, and a claim would begin a second
// history. A node of an older epoch is not waited for.
func TestANodeThatIsBehindDoesNotClaim(t *testing.T) {
	silent := func(_ int, o *cluster.ReplicaOptions) { o.Send = nil }
	run(t, silent, func(t *testing.T, g *group) {
		for _, r := range g.replicas {
			r.Heard(cluster.Heartbeat{Node: "n9", Epoch: 1, Pos: 5})
		}
		time.Sleep(time.Minute)
		for i, r := range g.replicas {
			if r.Status().Copy.Epoch != 0 {
				t.Fatalf("n%d has applied a claim", i)
			}
			r.Forget("n9")
		}
		owner := g.owner(t)
		for _, r := range g.replicas {
			r.Heard(cluster.Heartbeat{Node: "n9", Epoch: 0, Pos: 5})
		}
		if _, err := g.replicas[owner].Commit(record(1, 0, 0)); err != nil {
			t.Fatal(err)
		}
		before := g.replicas[0].Status().Copy.Epoch
		time.Sleep(time.Minute) // without heartbeats the nodes take the partition from each other
		if after := g.replicas[0].Status().Copy.Epoch; after == before {
			t.Error("nobody claims the partition because of a node of an older epoch")
		}
	})
}

// A node claims a partition whose owner n9 has ended. The claim says whether the owner was stopped in order.
func TestAClaimSaysWhetherTheLastOwnerWasStoppedInOrder(t *testing.T) {
	const process = 7 // of the owner
	for name, test := range map[string]struct {
		owner string
		clean bool // of the node that claims
		heard []cluster.Heartbeat
		want  bool
	}{
		"it was heard and became silent":          {"n9", false, []cluster.Heartbeat{{Process: process, Owner: true}}, false},
		"it said that it is being stopped":        {"n9", false, []cluster.Heartbeat{{Process: process, Owner: true}, {Process: process, Owner: true, Stopping: true}}, true},
		"its node was started again after a stop": {"n9", false, []cluster.Heartbeat{{Process: 8, Clean: true}}, true},
		"its node was started again after a kill": {"n9", true, []cluster.Heartbeat{{Process: 8}}, false},
		"nothing was heard of its node":           {"n9", false, nil, true},
		"it was this node, which was stopped":     {"n0", true, nil, true},
		"it was this node, which was killed":      {"n0", false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(i int, o *cluster.ReplicaOptions) {
				o.Copy = cluster.Copy{Epoch: 1, Claim: cluster.Claim{Node: test.owner, Process: process}}
				o.Clean = test.clean
			}
			run(t, change, func(t *testing.T, g *group) {
				for _, h := range test.heard {
					h.Node, h.Epoch = "n9", 1
					for _, r := range g.replicas {
						r.Heard(h)
					}
				}
				if o := g.owner(t); o != 0 {
					t.Fatalf("n%d owns the partition", o)
				}
				if got := g.replicas[0].Status().Copy.Claim.Handover; got != test.want {
					t.Errorf("the claim says %v", got)
				}
			})
		})
	}
}

func TestARecordIsAppliedWhenItIsAcknowledged(t *testing.T) {
	run(t, nil, func(t *testing.T, g *group) {
		o := g.owner(t)
		pos, err := g.replicas[o].Commit(record(7, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := g.stores[o].data; len(got) != 1 || got[0].id != 7 || got[0].pos != pos {
			t.Fatal(got)
		}
		other := (o + 1) % 3
		if err := g.replicas[other].Reached(t.Context(), pos); err != nil {
			t.Fatal(err)
		}
		if got := g.stores[other].data; len(got) != 1 || got[0].id != 7 {
			t.Fatal(got)
		}
		if _, err := g.replicas[other].Commit(record(8, 0, 1)); !errors.Is(err, cluster.ErrNotOwner) {
			t.Error(err)
		}
		if _, err := g.replicas[o].Commit(cluster.Record{Data: make([]byte, cluster.MaxRecord+1)}); !errors.Is(err, cluster.ErrTooLarge) {
			t.Error(err)
		}
	})
}

func TestAHandoverLosesNothing(t *testing.T) {
	run(t, nil, func(t *testing.T, g *group) {
		o := g.owner(t)
		time.Sleep(time.Second) // the others are heard
		var tasks sync.WaitGroup
		for s := range byte(simulatedSessions) {
			tasks.Go(func() {
				for n := uint32(0); ; n++ {
					if _, err := g.replicas[o].Commit(record(uint64(s)<<32|uint64(n), s, n)); errors.Is(err, cluster.ErrNotOwner) {
						return
					} else if err != nil {
						t.Errorf("record %d of session %d: %v", n, s, err)
						return
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		begin := time.Now()
		if err := g.replicas[o].HandOver(t.Context(), "n2"); err != nil {
			t.Fatal(err)
		}
		for !g.replicas[2].Status().Owns {
			time.Sleep(time.Millisecond)
		}
		if d := time.Since(begin); d > 50*time.Millisecond {
			t.Errorf("the handover took %s", d)
		}
		tasks.Wait()
		if _, err := g.replicas[2].Commit(record(1<<60, 0, g.stores[2].after(0))); err != nil {
			t.Error(err)
		}
		if err := g.replicas[o].HandOver(t.Context(), "n1"); !errors.Is(err, cluster.ErrNotOwner) {
			t.Errorf("a node that owns nothing hands over: %v", err)
		}
		if err := g.replicas[2].HandOver(t.Context(), "stranger"); err == nil {
			t.Error("the partition was handed over to a node that does not exist")
		}
	})
}

// failing is a store that fails at a position.
type failing struct {
	*memory
	at cluster.Pos
}

var errDisk = errors.New("the disk is full")

func (f failing) Apply(records []cluster.Record, c cluster.Copy) ([]error, error) {
	if c.Pos == f.at {
		return nil, errDisk
	}
	return f.memory.Apply(records, c)
}

func TestAFailingStoreStopsTheReplica(t *testing.T) {
	change := func(i int, o *cluster.ReplicaOptions) {
		if i == 0 {
			o.Store = failing{&memory{}, 2}
		}
	}
	run(t, change, func(t *testing.T, g *group) {
		if o := g.owner(t); o != 0 {
			t.Fatalf("n%d owns the partition", o)
		}
		if _, err := g.replicas[0].Commit(record(1, 0, 0)); !errors.Is(err, cluster.ErrStopped) {
			t.Errorf("a record whose fate is unknown is answered with %v", err)
		}
		if err := <-g.ended[0]; !errors.Is(err, errDisk) {
			t.Error(err)
		}
		if _, err := g.replicas[0].Commit(record(2, 0, 0)); !errors.Is(err, cluster.ErrNotOwner) {
			t.Error(err)
		}
		if err := g.replicas[0].Reached(t.Context(), 2); !errors.Is(err, cluster.ErrStopped) {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if !g.replicas[1].Status().Owns || len(g.stores[1].data) != 1 {
			t.Error("the next node does not own the partition, or does not have the record")
		}
	})
}

// choosy is a store that refuses the records of a session.
type choosy struct {
	*memory
	session byte
}

var errUnfit = errors.New("the record does not fit")

func (c choosy) Apply(records []cluster.Record, after cluster.Copy) (refused []error, err error) {
	var fit []cluster.Record
	for _, r := range records {
		_, session, _ := parseRecord(r)
		if session == c.session {
			refused = append(refused, errUnfit)
		} else {
			refused, fit = append(refused, nil), append(fit, r)
		}
	}
	_, err = c.memory.Apply(fit, after)
	return refused, err
}

func TestRefusedRecordsAreReportedToTheirSubmitters(t *testing.T) {
	change := func(_ int, o *cluster.ReplicaOptions) { o.Store = choosy{o.Store.(*memory), 2} }
	run(t, change, func(t *testing.T, g *group) {
		r := g.replicas[g.owner(t)]
		var tasks sync.WaitGroup
		for s := range byte(simulatedSessions) {
			tasks.Go(func() {
				if _, err := r.Commit(record(uint64(s), s, 0)); (s == 2) != errors.Is(err, errUnfit) || s != 2 && err != nil {
					t.Errorf("the record of session %d: %v", s, err)
				}
			})
		}
		tasks.Wait()
	})
}

func TestFramesOfAnotherClusterStopTheReplica(t *testing.T) {
	run(t, func(i int, o *cluster.ReplicaOptions) {
		if i == 1 {
			o.Cluster = "other"
		}
	}, func(t *testing.T, g *group) {
		if err := <-g.ended[1]; !errors.Is(err, cluster.ErrDamaged) {
			t.Error(err)
		}
	})
}

func TestNodesThatMayNotOwnClaimNothing(t *testing.T) {
	run(t, func(i int, o *cluster.ReplicaOptions) { o.MayOwn = func() bool { return i == 2 } }, func(t *testing.T, g *group) {
		if o := g.owner(t); o != 2 {
			t.Errorf("n%d owns the partition", o)
		}
	})
}

func TestRecordsWaitWhileTheLogIsQuiet(t *testing.T) {
	run(t, nil, func(t *testing.T, g *group) {
		o := g.owner(t)
		r := g.replicas[o]
		var tasks sync.WaitGroup
		commit := func(session byte) {
			tasks.Go(func() {
				for n := range uint32(20) {
					if _, err := r.Commit(record(uint64(session)<<32|uint64(n), session, n)); err != nil {
						t.Errorf("record %d of session %d: %v", n, session, err)
					}
				}
			})
		}
		commit(0)
		time.Sleep(20 * time.Millisecond)
		err := r.Quiet(t.Context(), func(pos cluster.Pos) error {
			commit(1)
			time.Sleep(time.Second)
			if _, last, _ := g.log.View("reader").Ends(t.Context(), 0); last != pos {
				t.Errorf("the log has position %d, the last one was %d", last, pos)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		tasks.Wait()
		if n := len(g.stores[o].data); n != 40 {
			t.Errorf("%d records are stored", n)
		}
		if err := g.replicas[(o+1)%3].Quiet(t.Context(), nil); !errors.Is(err, cluster.ErrNotOwner) {
			t.Error(err)
		}
	})
}
