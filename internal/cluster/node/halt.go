package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
)

// A partition is halted when its log ends before what this node has applied, and while the log is replaced. Its sessions can be
// read, writes are refused, and the other partitions go on.

// errReplacing is why a partition is halted whose log is replaced.
var errReplacing = errors.New("its log is being replaced")

// set makes a new replica. It is another process for the log: frames of the one before may still arrive.
func (p *part) set(opt cluster.ReplicaOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options = opt
	p.process = rand.Uint64() | 1
	opt.Process = p.process
	p.replica = cluster.NewReplica(opt)
}

// processID returns what this node calls itself in claims of the partition.
func (p *part) processID() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

// follow follows a partition until ctx ends or it cannot be followed any more. A halted partition waits for Resume.
func (n *Node) follow(ctx context.Context, p *part) error {
	for {
		run, stop := context.WithCancel(ctx)
		p.mu.Lock()
		p.stop = stop
		if p.halting {
			stop()
		}
		p.mu.Unlock()
		err := p.get().Run(run)
		stop()
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, cluster.ErrShort):
			n.log.Error("the log of a partition has lost what a majority had stored; the partition accepts no writes until parley cluster repair", "partition", p.number, "err", err)
		case p.isHalting():
			err = errReplacing
		default:
			return err
		}
		p.change(func() { p.halted = err })
		n.ownerChanged(ctx, p)
		if err := n.waitHalted(ctx, p); err != nil {
			return err
		}
		if p.dropped() {
			return fmt.Errorf("%w: the log of partition %d was replaced by one that begins later", cluster.ErrTrimmed, p.number)
		}
		opt := p.options // only this goroutine changes them now
		opt.Copy = p.status().Copy
		p.set(opt)
		n.log.Info("the partition is followed again", "partition", p.number, "position", opt.Copy.Pos)
	}
}

// waitHalted sends heartbeats until Resume is called. They keep nodes that have applied less from claiming the partition.
func (n *Node) waitHalted(ctx context.Context, p *part) error {
	beat := time.NewTicker(max(n.opt.Heartbeat, 100*time.Millisecond))
	defer beat.Stop()
	for {
		changed := p.changes()
		why := p.haltedBy()
		if why == nil {
			return nil
		}
		h := n.heartbeat(p)
		h.Barred = fmt.Sprintf("partition %d is halted: %s", p.number, why)
		n.others().SendHeartbeat(h)
		select {
		case <-beat.C:
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// halt makes this node stop following a partition, and returns when it has.
func (p *part) halt(ctx context.Context) error {
	p.change(func() {
		p.halting = true
		if p.stop != nil {
			p.stop()
		}
	})
	for {
		changed := p.changes()
		if p.haltedBy() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// resume makes this node follow a halted partition again, or, with drop, get the store of another node.
func (p *part) resume(drop bool) {
	p.change(func() { p.halting, p.halted, p.drop = false, nil, drop })
}

// change changes the state of a halt and wakes those that wait for it.
func (p *part) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// changes returns a channel that is closed with the next change.
func (p *part) changes() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (p *part) isHalting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halting
}

func (p *part) dropped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop
}

// haltedBy returns why the partition is halted, nil if it is not.
func (p *part) haltedBy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halted
}

// refusal returns the error for writes to a halted partition, nil if it is not halted.
func (p *part) refusal() error {
	if err := p.haltedBy(); err != nil {
		return chat.Errorf(chat.Unavailable, "partition %d of the cluster accepts no writes: %s", p.number, err)
	}
	return nil
}

// Halted returns why a partition accepts no writes on this node, nil if all do.
func (n *Node) Halted() error {
	for _, p := range n.parts {
		if err := p.haltedBy(); err != nil {
			return fmt.Errorf("partition %d accepts no writes: %w; see parley cluster repair", p.number, err)
		}
	}
	return nil
}
