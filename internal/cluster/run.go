package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"
)

// Run follows the partition until ctx ends, the store fails, or the log cannot be followed: ErrTrimmed, ErrShort, ErrDamaged.
// It is called once.
func (r *Replica) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r.ctx = ctx
	err := r.run(ctx)
	cancel()
	r.tasks.Wait()
	r.stop()
	return err
}

func (r *Replica) run(ctx context.Context) error {
	entries, ended := make(chan Entry, 64), make(chan error, 1)
	r.tasks.Go(func() { ended <- r.tail(ctx, entries) })
	r.ownerHeard()
	r.ticked = time.Now()
	beat := time.NewTicker(r.opt.Heartbeat)
	defer beat.Stop()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	r.batch = time.NewTimer(time.Hour)
	defer r.batch.Stop()
	for {
		if f := r.pendingFrame; f != nil && !f.again.IsZero() {
			again.Reset(time.Until(f.again))
		} else {
			again.Stop()
		}
		r.setEnough()
		select {
		case <-r.quietEnded():
			r.quiet = nil
			r.accept()
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return err
		case e := <-entries:
			if err := r.take(e); err != nil {
				return err
			}
		case <-r.wake:
			r.accept()
			r.withdraw()
		case f := <-r.appended:
			r.answered(f)
		case <-again.C:
			r.resend()
		case <-r.batch.C:
			r.accept()
		case <-beat.C:
			r.tick()
		case h := <-r.handover:
			if !r.part.Owns() || r.leaving != nil {
				h.done <- ErrNotOwner
				continue
			}
			r.leaving = h
			r.next()
			r.handOver()
		case q := <-r.quieting:
			if !r.part.Owns() || r.quiet != nil {
				q.began <- ErrNotOwner
				continue
			}
			r.quiet = q
		}
		r.tellQuiet()
	}
}

// tail passes the entries of the log on.
func (r *Replica) tail(ctx context.Context, entries chan<- Entry) error {
	for e, err := range r.opt.Log.Tail(ctx, r.opt.Partition, r.opt.Copy.Pos) {
		if err != nil {
			return err
		}
		select {
		case entries <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ErrStopped
}

// parse returns the frame of an entry. If it is the one that this process has sent, its records have Decoded.
func (r *Replica) parse(e Entry) (*Frame, error) {
	if r.pendingFrame != nil && bytes.Equal(r.pendingFrame.frame.Encoded(), e.Frame) {
		return r.pendingFrame.frame, nil
	}
	return ParseFrame(e.Frame)
}

// take applies one entry of the log.
func (r *Replica) take(e Entry) error {
	f, err := r.parse(e)
	if err != nil {
		return fmt.Errorf("position %d of partition %d: %w", e.Pos, r.opt.Partition, err)
	}
	if f.Cluster != r.opt.Cluster || int(f.Partition) != r.opt.Partition {
		return fmt.Errorf("%w: position %d is of partition %d of cluster %q", ErrDamaged, e.Pos, f.Partition, f.Cluster)
	}
	before := r.part.Copy()
	o := r.part.Take(e.Pos, f)
	if o.Verdict == Damaged {
		return fmt.Errorf("%w: position %d has frame %d of epoch %d, the copy is at %s", ErrDamaged, e.Pos, f.Number, f.Epoch, before)
	}
	var took time.Duration // for the log to store a frame of this process
	if r.pendingFrame != nil && len(o.Applied) > 0 {
		took = time.Since(r.pendingFrame.begun)
		r.opt.Meter.Stored(took)
	}
	r.settle()
	r.collect()
	if r.part.Waiting() >= largeFrame {
		r.next() // this frame is stored while the next one is on its way to the log
	}
	var records []Record
	if o.Verdict == Counts {
		records = f.Records
		r.ownerHeard()
	}
	begun := time.Now()
	refused, err := r.opt.Store.Apply(records, r.part.Copy())
	if err != nil {
		return fmt.Errorf("store position %d of partition %d: %w", e.Pos, r.opt.Partition, err)
	}
	r.opt.Meter.Applied(o.Verdict, len(records), time.Since(begun))
	r.advance()
	for i, t := range o.Applied { // in the order of the frame's records
		if refused != nil && refused[i] != nil {
			r.finish(t, 0, refused[i])
		} else {
			r.finish(t, e.Pos, nil)
		}
	}
	for _, t := range o.Lost {
		r.finish(t, 0, ErrLost)
	}
	switch {
	case o.Verdict == Counts && f.Number == 0:
		r.claimed(f)
	case o.Verdict == Void && f.Number > 0 && r.opt.Void != nil:
		r.opt.Void(e.Pos)
	}
	r.expected, r.until = r.part.Waiting()+len(o.Applied), time.Now().Add(min(took/2, maxBatchWait))
	r.next()
	r.handOver()
	r.withdraw()
	return nil
}

// claimed is called after a claim was applied.
func (r *Replica) claimed(f *Frame) {
	r.log.Info("a claim of the partition counts", "epoch", f.Epoch, "owner", f.Claim.Node, "handover", f.Claim.Handover)
	r.opt.Meter.Claimed(f.Claim.Handover)
	if h := r.leaving; h != nil {
		r.leaving = nil
		if f.Claim.Node == h.to.Node && f.Claim.Process == h.to.Process {
			h.done <- nil
		} else {
			h.done <- fmt.Errorf("node %s claimed the partition", f.Claim.Node)
		}
	}
	r.accept() // what was submitted to the epoch before is refused now
	if r.opt.Claims != nil {
		r.opt.Claims(r.Status())
	}
	r.beat()
}

// quietEnded returns a channel that is closed at the end of a time without frames.
func (r *Replica) quietEnded() <-chan struct{} {
	if r.quiet == nil {
		return nil
	}
	return r.quiet.ended
}

// tellQuiet begins a time without frames when none is on its way.
func (r *Replica) tellQuiet() {
	if q := r.quiet; q != nil && !q.told && r.part.Sent() == nil && r.pendingFrame == nil {
		q.told, q.pos = true, r.part.Copy().Pos
		q.began <- nil
	}
}

// setEnough sets how many submissions wake this goroutine. While a frame is on its way they wait for its end, and the next frame
// waits for several of them; to be woken by each of them would take a few microseconds.
func (r *Replica) setEnough() {
	enough := 1
	switch {
	case r.leaving != nil: // they are refused
	case r.quiet != nil || r.part.Sent() != nil:
		enough = math.MaxInt // they are collected at the end of it
	case r.missing > 0:
		enough = r.missing
	}
	r.mu.Lock()
	r.enough = enough
	woken := len(r.submitted) >= enough
	r.mu.Unlock()
	if woken {
		r.notify()
	}
}

// accept takes what was submitted and sends it.
func (r *Replica) accept() {
	r.collect()
	r.next() // after all of them: they share a frame
}

// collect takes what was submitted.
func (r *Replica) collect() {
	if r.quiet != nil && r.part.Owns() && r.leaving == nil {
		return // later
	}
	r.mu.Lock()
	list := r.submitted
	r.submitted = nil
	r.mu.Unlock()
	for _, s := range list {
		if r.leaving != nil {
			s.done(0, ErrNotOwner)
			continue
		}
		t, ok := r.part.Submit(s.record)
		if !ok {
			s.done(0, ErrNotOwner)
			continue
		}
		r.pending[t] = s
	}
}

// tick sends a heartbeat and claims the partition when its owner was silent for too long.
func (r *Replica) tick() {
	now := time.Now()
	if now.Sub(r.ticked) > 3*r.opt.Heartbeat {
		r.ownerHeard() // this process was paused, not the owner
	}
	r.ticked = now
	r.beat()
	if h := r.leaving; h != nil && h.ctx.Err() != nil {
		r.leaving = nil
		if r.pendingFrame != nil && r.pendingFrame.frame.Number == 0 {
			r.drop()
		}
	}
	if r.part.Owns() || r.pendingFrame != nil || r.opt.MayOwn != nil && !r.opt.MayOwn() || r.behind() {
		return
	}
	if r.silence() > r.opt.Takeover+time.Duration(r.opt.Rank)*r.opt.Takeover/2 {
		r.log.Info("the partition's owner is silent; claiming the partition", "epoch", r.part.Copy().Epoch+1)
		f := r.part.Claim()
		f.Claim.Handover = r.endedInOrder()
		r.send(f)
	}
}

// endedInOrder reports whether the last owner of the partition was shut down in order, when no other process was there to take the partition
// from it. An owner that this process has heard was shut down in order if it said that it was stopping. If the owner ended before
// this process started, the next process of the owner's node says how it ended; until that one is heard, the owner counts as shut down in order.
func (r *Replica) endedInOrder() bool {
	owner := r.part.Copy().Claim
	r.mu.Lock()
	defer r.mu.Unlock()
	h, heard := r.peers[owner.Node]
	switch {
	case owner.Node == "":
		return false // the partition is new
	case owner.Node == r.opt.Node:
		return r.opt.Clean
	case !heard:
		return true
	case h.Process == owner.Process:
		return h.Stopping
	}
	return h.Clean
}

// behind reports whether another node has applied more. What it has applied was in the log, so this process reads it too, unless
// the log has lost it; then a claim would begin a second history.
func (r *Replica) behind() bool {
	c := r.part.Copy()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.peers {
		if h.Epoch >= c.Epoch && h.Pos > c.Pos {
			return true
		}
	}
	return false
}

// withdraw ends an own claim if the owner was heard. The log may still get the claim; that is harmless.
func (r *Replica) withdraw() {
	if f := r.pendingFrame; f != nil && f.frame.Number == 0 && !r.part.Owns() && r.silence() < r.opt.Heartbeat {
		r.drop()
	}
}

// handOver sends the claim of a handover when no records are on their way.
func (r *Replica) handOver() {
	if h := r.leaving; h != nil && r.part.Owns() && r.part.Sent() == nil && r.part.Waiting() == 0 && r.pendingFrame == nil {
		r.send(r.part.HandOver(h.to.Node, h.to.Process))
	}
}

// ownerHeard records that the owner was heard now.
func (r *Replica) ownerHeard() {
	r.mu.Lock()
	r.ownerSeen = time.Now()
	r.mu.Unlock()
}

// silence returns for how long the owner was not heard.
func (r *Replica) silence() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.ownerSeen)
}

func (r *Replica) beat() {
	if r.opt.Send == nil {
		return
	}
	c := r.part.Copy()
	h := Heartbeat{Partition: r.opt.Partition, Node: r.opt.Node, Process: r.opt.Process, Epoch: c.Epoch, Owner: r.part.Owns(), Pos: c.Pos, Synced: c.Pos, Rank: r.opt.Rank, Clean: r.opt.Clean}
	if r.opt.Synced != nil {
		h.Synced = r.opt.Synced()
	}
	if r.opt.About != nil {
		r.opt.About(&h)
	}
	r.opt.Send(h)
}

// advance shows to other goroutines what was applied.
func (r *Replica) advance() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = Status{Copy: r.part.Copy(), Owns: r.part.Owns()}
	if r.waiting {
		close(r.advanced)
		r.advanced, r.waiting = make(chan struct{}), false
	}
}

func (r *Replica) finish(t Ticket, pos Pos, err error) {
	done := r.pending[t].done
	delete(r.pending, t)
	done(pos, err)
}

// stop answers what is left.
func (r *Replica) stop() {
	r.mu.Lock()
	r.stopped = true
	r.status.Owns = false
	close(r.advanced)
	list := r.submitted
	r.submitted = nil
	r.mu.Unlock()
	for _, s := range list {
		s.done(0, ErrNotOwner)
	}
	for t, s := range r.pending {
		delete(r.pending, t)
		s.done(0, ErrStopped)
	}
	if h := r.leaving; h != nil {
		h.done <- ErrStopped
	}
	close(r.ended)
}
