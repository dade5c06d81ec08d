package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/sleep"
)

// mayOwn returns why this node must not own partitions, or nil.
func (n *Node) mayOwn() error {
	if n.draining.Load() {
		return errDrained
	}
	return n.fit()
}

var errStopping = errors.New("it is being stopped")

// Stopping says that this process is about to end in order. It gets no more partitions, and keeps its own until HandOver.
func (n *Node) Stopping() {
	n.stopping.Store(true)
	transport := n.others()
	if transport == nil {
		return
	}
	for _, p := range n.parts {
		transport.SendHeartbeat(n.heartbeat(p)) // the other nodes know it at once
	}
}

// heartbeat returns a heartbeat of this node for a partition.
func (n *Node) heartbeat(p *part) cluster.Heartbeat {
	st := p.status()
	h := cluster.Heartbeat{
		Partition: p.number, Node: n.opt.Name, Process: p.processID(), Epoch: st.Copy.Epoch, Owner: st.Owns, Pos: st.Copy.Pos, Synced: p.syncedPos(),
		Rank: n.rank(p), Clean: n.opt.Clean,
	}
	n.About(&h)
	return h
}

var errDrained = errors.New("it was drained; it takes partitions again after a restart")

// fit returns why this node cannot own partitions, or nil.
func (n *Node) fit() error {
	if off := n.ClockOffset(); off.Abs() > cluster.MaxClockOffset {
		return fmt.Errorf("its clock differs by %s from those of the other nodes", off.Round(time.Millisecond))
	}
	if err := n.opt.Journal.Writable(); err != nil {
		return err
	}
	if n.opt.Damage != nil {
		if err := n.opt.Damage(); err != nil {
			return err
		}
	}
	if n.opt.MayOwn != nil {
		return n.opt.MayOwn()
	}
	return nil
}

// mayClaim reports whether this node may claim a partition that has no owner. A node that was drained or is being stopped
// may, if no node that is heard would do it.
func (n *Node) mayClaim(p *part) bool {
	if !n.draining.Load() && !n.stopping.Load() {
		return n.mayOwn() == nil
	}
	for _, h := range p.get().Peers() {
		if h.Barred == "" && n.Present(&h) {
			return false
		}
	}
	return n.fit() == nil
}

// About completes a heartbeat of this node.
func (n *Node) About(h *cluster.Heartbeat) {
	h.Sent = n.now()
	if err := n.mayOwn(); err != nil {
		h.Barred = chat.Public(err).Msg
		if chat.CodeOf(err) == chat.Internal {
			h.Barred = err.Error() // it is not an error of a request
		}
	}
	if n.stopping.Load() {
		h.Stopping = true
		h.Barred = cmp.Or(h.Barred, errStopping.Error())
	}
	if n.opt.Describe != nil {
		n.opt.Describe(h)
	}
}

// barredEvery is how often a node looks whether it may still own its partitions.
const barredEvery = time.Second

// giveUp hands partitions over while this node must not own them, until ctx ends.
func (n *Node) giveUp(ctx context.Context) {
	logged := ""
	for sleep.For(ctx, barredEvery) == nil {
		err := n.mayOwn()
		if err == nil {
			logged = ""
			continue
		}
		if !n.ownsAny() {
			continue
		}
		if logged != err.Error() {
			logged = err.Error()
			n.log.Warn("this node must not own partitions at the moment; handing them over", "err", err)
		}
		limit, cancel := context.WithTimeout(ctx, rebalanceEvery)
		if err := n.HandOver(limit); err != nil && ctx.Err() == nil {
			n.log.Debug("partitions could not be handed over; trying again", "err", err)
		}
		cancel()
	}
}

// damaged waits until the store is damaged, this node owns no partitions, and so many other nodes are ready that they are a majority
// with this one. It returns the error of the store, or nil when ctx ends.
func (n *Node) damaged(ctx context.Context) error {
	for sleep.For(ctx, barredEvery) == nil {
		if err := n.opt.Damage(); err != nil && !n.ownsAny() && len(n.ready()) >= n.OthersOfMajority() {
			return err
		}
	}
	return nil
}

func (n *Node) ownsAny() bool {
	for _, p := range n.parts {
		if p.status().Owns {
			return true
		}
	}
	return false
}
