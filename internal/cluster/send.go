package cluster

import (
	"context"
	"time"
)

// maxBackoff is the longest time between two appends of a frame. A log without a leader refuses it at once, and each write waits
// for the next attempt.
const maxBackoff = 250 * time.Millisecond

const (
	// appendLimit is how long one append may take.
	appendLimit = 2 * time.Second

	// resendAfter is the time until a frame that was not read back is appended again.
	resendAfter = 2 * time.Second

	// largeFrame is the number of waiting records with which a frame does not wait for more. Beyond it the cost of a frame is small
	// beside that of its records.
	largeFrame = 512

	// maxBatchWait is the longest time that a frame waits for more records.
	maxBatchWait = 5 * time.Millisecond
)

// next appends the records that wait, unless a frame is on its way. Writers whose records were just applied often submit the next
// ones at once, and a frame takes the three nodes as much processor time as dozens of records, so next waits for them, for
// half of the time in which the log stores a frame. A single writer is not delayed: its next record is all that is expected.
func (r *Replica) next() {
	r.missing = 0
	if r.quiet != nil {
		return
	}
	n := r.part.Waiting()
	if wait := time.Until(r.until); wait > 0 && n > 0 && n < min(r.expected, largeFrame) && r.leaving == nil && r.part.Sent() == nil {
		r.missing = min(r.expected, largeFrame) - n
		r.batch.Reset(wait)
		return
	}
	r.send(r.part.Next())
}

// send appends a frame. A frame that was on its way is given up.
func (r *Replica) send(f *Frame) {
	if f == nil {
		return
	}
	r.drop()
	r.failed = 0
	now := time.Now()
	r.pendingFrame = &pendingFrame{frame: f, begun: now}
	for _, t := range r.part.inSent {
		if f.Number > 0 {
			r.opt.Meter.Queued(now.Sub(r.pending[t].at))
		}
	}
	r.resend()
}

// resend appends the frame on its way once more.
func (r *Replica) resend() {
	f := r.pendingFrame
	if f == nil {
		return
	}
	f.again = time.Time{}
	limit := appendLimit
	if f.tries == 0 {
		limit /= 4 // a log whose leader changes loses what is on its way
	}
	f.tries++
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	f.cancel = cancel
	b := f.frame.Encoded()
	r.tasks.Go(func() {
		f.err = r.opt.Log.Append(ctx, r.opt.Partition, b)
		cancel()
		select {
		case r.appended <- f:
		case <-r.ctx.Done():
		}
	})
}

// answered takes the result of an append. Only the log says whether the frame counts, so success means to wait for it.
func (r *Replica) answered(f *pendingFrame) {
	if f != r.pendingFrame {
		return
	}
	if f.err == nil {
		r.failed = 0
		f.again = time.Now().Add(resendAfter)
		return
	}
	r.failed++
	f.again = time.Now().Add(min(10*time.Millisecond<<min(r.failed, 10), maxBackoff))
	r.log.Debug("a frame could not be appended; trying again", "err", f.err, "epoch", f.frame.Epoch, "frame", f.frame.Number)
}

// settle gives up the frame on its way if the log has decided about it.
func (r *Replica) settle() {
	f := r.pendingFrame
	if f == nil {
		return
	}
	if f.frame.Number == 0 && f.frame.Epoch <= r.part.Copy().Epoch || f.frame.Number > 0 && f.frame != r.part.Sent() {
		r.drop()
	}
}

func (r *Replica) drop() {
	if r.pendingFrame != nil {
		r.pendingFrame.cancel()
		r.pendingFrame = nil
	}
}
