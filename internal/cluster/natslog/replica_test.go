package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

// memory is a store.
type memory struct {
	mu   sync.Mutex
	copy cluster.Copy
	data []string
}

func (m *memory) Apply(records []cluster.Record, c cluster.Copy) ([]error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		m.data = append(m.data, fmt.Sprintf("%d %s", c.Pos, r.Data))
	}
	m.copy = c
	return nil, nil
}

func (m *memory) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.data)
}

// commit commits through the process that owns the partition and returns its number and the position.
func commit(t *testing.T, replicas []*cluster.Replica, text string) (owner int, pos cluster.Pos) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for i, r := range replicas {
			if r == nil || !r.Status().Owns {
				continue
			}
			pos, err := r.Commit(cluster.Record{Kind: 1, Data: []byte(text)})
			if err == nil {
				return i, pos
			} else if !errors.Is(err, cluster.ErrLost) && !errors.Is(err, cluster.ErrNotOwner) {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("no process owns the partition")
	return 0, 0
}

func TestReplicasContinueWhenTheOwnerAndItsServerEnd(t *testing.T) {
	t.Parallel() // it waits for elections
	logs, nodes := three(t)
	var stores [3]memory
	var cancels [3]context.CancelFunc
	replicas := make([]*cluster.Replica, 3)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for i, l := range logs {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cancels[i] = cancel
		r := cluster.NewReplica(cluster.ReplicaOptions{
			Cluster: "c1", Node: fmt.Sprint("n", i), Log: l, Store: &stores[i], Send: l.SendHeartbeat, Rank: i, Heartbeat: 100 * time.Millisecond, Takeover: 4 * time.Second,
		})
		stop, err := l.Heartbeats(r.Heard)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		tasks.Go(func() {
			if err := r.Run(ctx); ctx.Err() == nil {
				t.Errorf("n%d: %v", i, err)
			}
		})
		replicas[i] = r
	}
	var owner int
	for n := range 20 {
		owner, _ = commit(t, replicas, fmt.Sprint("first ", n))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	to := (owner + 1) % 3
	for { // until it is heard
		err := replicas[owner].HandOver(ctx, fmt.Sprint("n", to))
		if err == nil {
			break
		} else if ctx.Err() != nil || errors.Is(err, cluster.ErrNotOwner) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for n := range 20 {
		if owner, _ = commit(t, replicas, fmt.Sprint("second ", n)); owner != to {
			t.Fatalf("n%d owns the partition after it was handed over to n%d", owner, to)
		}
	}
	cancels[owner]()
	nodes[owner].Close()
	replicas[owner] = nil
	var last cluster.Pos
	for n := range 20 {
		_, last = commit(t, replicas, fmt.Sprint("third ", n))
	}
	var have []string
	for i, r := range replicas {
		if r == nil {
			continue
		}
		if err := r.Reached(ctx, last); err != nil {
			t.Fatal(err)
		}
		if got := stores[i].all(); have == nil {
			have = got
		} else if !slices.Equal(got, have) {
			t.Errorf("the copies differ: %v and %v", have, got)
		}
	}
	if len(have) != 60 {
		t.Errorf("the copies have %d records: %v", len(have), have)
	}
}
