package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/sleep"
)

// ownerChanged tells the server that it has become the owner of a partition, or is not the owner any more. Calls for one
// partition may come at the same time, and one may see the status of a later claim. The turns of an epoch are released before
// those of another one are resumed.
func (n *Node) ownerChanged(ctx context.Context, p *part) {
	p.turnsMu.Lock()
	st := p.get().Status()
	if p.turnsOf != 0 && (!st.Owns || st.Copy.Epoch != p.turnsOf) {
		p.turnsOf = 0
		if n.opt.Lost != nil {
			n.opt.Lost(func(id chat.SessionID) bool { return n.Partition(id) == p.number })
		}
	}
	p.turnsMu.Unlock()
	if !st.Owns {
		return
	}
	n.gatherText(ctx, p, st.Copy.Pos)
	p.turnsMu.Lock()
	defer p.turnsMu.Unlock()
	if now := p.get().Status(); !now.Owns || now.Copy.Epoch != st.Copy.Epoch || p.turnsOf == st.Copy.Epoch {
		return // it was lost meanwhile, or another call has done it
	}
	p.turnsOf = st.Copy.Epoch
	p.beginOwning(st.Copy.Epoch)
	n.sessions.TookOver()
	ids, err := n.working(ctx, p)
	for err != nil {
		n.log.Error("the sessions with work could not be found, so their turns are not resumed yet; trying again", "partition", p.number, "err", err)
		p.turnsMu.Unlock()
		ended := sleep.For(ctx, time.Second)
		p.turnsMu.Lock()
		if ended != nil || p.turnsOf != st.Copy.Epoch {
			return
		}
		ids, err = n.working(ctx, p)
	}
	if n.opt.TookOver != nil {
		n.opt.TookOver(ids, st.Copy.Claim.Handover)
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

// rebalanceEvery is how often a node looks for partitions that another node should own.
const rebalanceEvery = 5 * time.Second

// rebalance gives partitions to the nodes that come before this one in their rank, so that the nodes share the work again after one of
// them was away. A handover interrupts running turns, which are resumed as a new attempt, so it waits for a moment without work. A node that
// owns nothing at all gets its partition after Options.Busy in any case: in a partition with many sessions that moment may never come.
func (n *Node) rebalance(ctx context.Context) {
	waits := make([]time.Time, len(n.parts)) // since when another node should own a partition
	for sleep.For(ctx, rebalanceEvery) == nil {
		for i, p := range n.parts {
			to := n.preferred(p)
			if to == "" {
				waits[i] = time.Time{}
				continue
			}
			if waits[i].IsZero() {
				waits[i] = time.Now()
			}
			busy, err := n.working(ctx, p)
			if err != nil || len(busy) > 0 && (n.hasPartition(to) || time.Since(waits[i]) < n.opt.Busy) {
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

// hasPartition reports whether a node owns a partition.
func (n *Node) hasPartition(name string) bool {
	return slices.ContainsFunc(n.parts, func(p *part) bool { return p.status().Copy.Claim.Node == name })
}

// rank returns the place of this node in the order in which nodes claim a partition.
func (n *Node) rank(p *part) int {
	if n.opt.Rank == nil {
		return 0
	}
	return n.opt.Rank(p.number)
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
		if fresh && h.Ready && h.Barred == "" && h.Epoch == st.Copy.Epoch && h.Pos+16 >= st.Copy.Pos && h.Rank < best {
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
		var best cluster.Heartbeat
		for _, h := range r.Peers() {
			if h.Barred == "" && n.Present(&h) && (best.Node == "" || h.Pos > best.Pos) {
				best = h
			}
		}
		if best.Node == "" {
			errs = append(errs, fmt.Errorf("partition %d: no other node can take it", p.number))
			continue
		}
		if err := r.HandOver(ctx, best.Node); err != nil && !errors.Is(err, cluster.ErrNotOwner) {
			errs = append(errs, fmt.Errorf("partition %d: %w", p.number, err))
		}
	}
	return errors.Join(errs...)
}
