package node

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/sleep"
)

// eraseWait is how long an erasure waits for another node.
const eraseWait = 10 * time.Second

// Erased implements session.OtherNodes. When all nodes have removed the session, its text is removed from the log of the partition
// as well. Otherwise the log keeps it until the missing nodes have read it.
func (n *Node) Erased(ctx context.Context, r *chat.Receipt) {
	p := n.partOf(r.Session)
	pos := p.status().Copy.Pos // behind the erasure, which this node has applied
	ctx, cancel := context.WithTimeout(ctx, eraseWait)
	defer cancel()
	names := n.members(ctx, p)
	errs := make([]error, len(names)+1)
	body := append(binary.BigEndian.AppendUint64(nil, uint64(pos)), r.Session...)
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() { _, errs[i] = n.ask(ctx, name, p, message{kind: msgErased, body: body}) })
	}
	errs[len(names)] = n.outgoing.empty()
	wait.Wait()
	if errors.Join(errs...) == nil {
		errs[len(names)] = n.purge(ctx, p, names)
	}
	for i, name := range append(names, n.opt.Name) {
		if errs[i] == nil {
			r.Nodes = append(r.Nodes, name)
			continue
		}
		r.Pending = append(r.Pending, name)
		n.log.Warn("a node still has an erased session, or its log has it; it is removed later", "node", name, "session", r.Session, "err", errs[i])
	}
	slices.Sort(r.Nodes)
	if n.opt.EraseNote != "" {
		r.Note += "; " + n.opt.EraseNote
	}
}

// erased answers another node, when this node has removed the session.
func (n *Node) erased(ctx context.Context, p *part, pos cluster.Pos, session []byte) error {
	ctx, cancel := context.WithTimeout(ctx, eraseWait)
	defer cancel()
	if err := p.get().Reached(ctx, pos); err != nil {
		return err
	}
	return errors.Join(n.sessions.FinishErasure(ctx, chat.SessionID(session)), n.outgoing.empty())
}

// purgeTime is how long the writes of a partition may wait while its log is purged, unless a test sets another time.
const purgeTime = 500 * time.Millisecond

// After a purge the partition is written to for purgeRest times as long as its writes have waited, before it is purged again. So
// erasures in a loop do not stop its writes, and those that come meanwhile share one purge.
const (
	purgeRest    = 4
	minPurgeRest = 50 * time.Millisecond
)

// purge removes everything from the log of a partition that this node owns, and from the files in which the nodes store it. A log
// that keeps its last frames would also keep what is before them in the same file, so nothing is written meanwhile.
func (n *Node) purge(ctx context.Context, p *part, others []string) error {
	p.purging.Lock()
	defer p.purging.Unlock()
	if err := sleep.For(ctx, time.Until(p.purged)); err != nil {
		return err
	}
	if p.erasedPos() == 0 {
		return nil // another erasure has purged the log meanwhile
	}
	var upTo cluster.Pos
	begun := time.Now()
	err := p.get().Quiet(ctx, func(pos cluster.Pos) (err error) {
		ctx, cancel := context.WithTimeout(ctx, n.purgeTime)
		defer cancel()
		if upTo, err = n.trimAll(ctx, p, others, pos); err != nil {
			return err
		}
		// The log compacts its files only if it has something new since the last time: a claim of the present epoch, which is void.
		void := cluster.Frame{Cluster: n.opt.Cluster, Partition: uint16(p.number), Epoch: p.status().Copy.Epoch, Claim: cluster.Claim{Node: n.opt.Name, Process: p.processID()}}
		if err := n.partitions().Append(ctx, p.number, void.Append(nil)); err != nil {
			return err
		}
		body := binary.BigEndian.AppendUint64(nil, uint64(upTo))
		return atAll(func() error { return n.compact(ctx, p, upTo) }, func() error { return n.askAll(ctx, others, p, message{kind: msgCompact, body: body}) })
	})
	pause := time.Since(begun)
	n.metrics.purge.Observe(pause.Seconds())
	p.purged = time.Now().Add(max(purgeRest*pause, minPurgeRest))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.erased <= upTo {
		p.erased = 0
	}
	return nil
}

// trimAll removes all frames from the log, when all nodes have stored what they say, and returns the position of the last one.
func (n *Node) trimAll(ctx context.Context, p *part, others []string, pos cluster.Pos) (cluster.Pos, error) {
	for {
		body := binary.BigEndian.AppendUint64(nil, uint64(pos))
		err := atAll(func() error { return n.synced(ctx, p, pos) }, func() error { return n.askAll(ctx, others, p, message{kind: msgSynced, body: body}) })
		if err != nil {
			return pos, err
		}
		if err := n.partitions().Trim(ctx, p.number, pos); err != nil {
			return pos, err
		}
		// A claim of another node, or a frame that was sent twice, may have come meanwhile.
		_, last, err := n.partitions().Ends(ctx, p.number)
		if err != nil || last <= pos {
			return pos, err
		}
		pos = last
	}
}

// atAll calls two functions at the same time: one for this node and one that asks the others.
func atAll(here, others func() error) error {
	done := make(chan error, 1)
	go func() { done <- here() }()
	err := others()
	return errors.Join(<-done, err)
}

// askAll asks nodes at the same time.
func (n *Node) askAll(ctx context.Context, nodes []string, p *part, m message) error {
	errs := make([]error, len(nodes))
	var wait sync.WaitGroup
	for i, name := range nodes {
		wait.Go(func() { _, errs[i] = n.ask(ctx, name, p, m) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// synced returns when the disk of this node has everything up to a position.
func (n *Node) synced(ctx context.Context, p *part, pos cluster.Pos) error {
	ctx, cancel := context.WithTimeout(ctx, n.purgeTime)
	defer cancel()
	if err := p.get().Reached(ctx, pos); err != nil {
		return err
	}
	return n.opt.Journal.Sync()
}

// purgeErased removes erased sessions from the log when the nodes that were missing have removed them.
func (n *Node) purgeErased(ctx context.Context, p *part) error {
	pos := p.erasedPos()
	if pos == 0 || p.syncedPos() < pos {
		return nil
	}
	names := n.members(ctx, p)
	for _, h := range p.get().Peers() {
		if h.Synced >= pos {
			names = slices.DeleteFunc(names, func(name string) bool { return name == h.Node })
		}
	}
	if len(names) > 0 {
		return nil
	}
	return n.purge(ctx, p, n.members(ctx, p))
}

// compact removes trimmed frames from the files of this node.
func (n *Node) compact(ctx context.Context, p *part, upTo cluster.Pos) error {
	if n.opt.Compact == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eraseWait)
	defer cancel()
	return n.opt.Compact(ctx, p.number, upTo)
}

// members returns the other nodes of the cluster: those that store the partition's log, and those that were heard.
func (n *Node) members(ctx context.Context, p *part) (names []string) {
	if l, ok := n.partitions().(cluster.Stored); ok {
		list, err := l.Servers(ctx, p.number)
		if err != nil {
			n.log.Warn("the nodes of a partition's log could not be listed", "partition", p.number, "err", err)
		}
		names = list
	}
	for _, h := range p.get().Peers() {
		names = append(names, h.Node)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == n.opt.Name })
}
