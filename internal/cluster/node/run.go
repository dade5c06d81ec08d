package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

// syncEvery is how often what was applied is synced. The log has it, so a crash loses nothing; the copy starts again from what
// it has.
const syncEvery = 200 * time.Millisecond

// Run connects the node to the others over a log and a transport, and follows all partitions until ctx ends or one of them
// cannot be followed any more.
func (n *Node) Run(ctx context.Context, log cluster.Log, t Transport) error {
	n.begun = time.Now()
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
		var have cluster.Copy // what the store has
		if b := copies[uint16(p.number)]; b != nil {
			if have, err = cluster.ParseCopy(b); err != nil {
				return fmt.Errorf("partition %d: %w", p.number, err)
			}
		}
		p.mu.Lock()
		p.synced, p.erased = have.Pos, have.Pos // the process before may have applied erasures
		p.owner = have.Claim.Node
		p.mu.Unlock()
		p.set(cluster.ReplicaOptions{
			Cluster: n.opt.Cluster, Partition: p.number, Node: n.opt.Name, Log: log, Store: applier{n, p}, Copy: have,
			Send: t.SendHeartbeat, About: n.About, Synced: p.syncedPos, Claims: func(st cluster.Status) {
				p.nextEpoch(st.Copy.Claim.Node)
				tasks.Go(func() { n.ownerChanged(ctx, p) })
			},
			Void:   p.voided,
			MayOwn: func() bool { return n.mayClaim(p) },
			Clean:  n.opt.Clean, MaxRecord: largest, Rank: n.rank(p), Heartbeat: n.opt.Heartbeat, Takeover: n.opt.Takeover, Meter: n.metrics, Logger: n.opt.Logger,
		})
	}
	stop, err := t.Heartbeats(func(h cluster.Heartbeat) {
		n.heardClock(&h)
		if h.Partition >= 0 && h.Partition < len(n.parts) {
			n.parts[h.Partition].get().Heard(h)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	stop, err = t.Listen(len(n.parts), n.serve(ctx, &tasks), n.heard(ctx, &tasks, t))
	if err != nil {
		return err
	}
	defer stop()
	defer n.outgoing.close()
	n.mu.Lock()
	n.transport, n.logs = t, log
	n.mu.Unlock()
	ended := make(chan error, len(n.parts)+2)
	for _, p := range n.parts {
		tasks.Go(func() { ended <- n.follow(ctx, p) })
	}
	tasks.Go(func() { ended <- n.sync(ctx) })
	if n.opt.Damage != nil {
		tasks.Go(func() { ended <- n.damaged(ctx) })
	}
	tasks.Go(func() { n.rebalance(ctx) })
	tasks.Go(func() { n.giveUp(ctx) })
	tasks.Go(func() { n.sample(ctx) })
	tasks.Go(func() { n.trim(ctx, log) })
	tasks.Go(func() { n.catchUpAtStart(ctx, log) })
	tasks.Go(func() { n.watchAge(ctx) })
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
