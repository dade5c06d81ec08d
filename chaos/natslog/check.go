package main

import (
	"math"
	"time"
)

// counts are the figures of a run.
type counts struct {
	appends, acknowledged, unknown, unknownStored, refused int
	lost, doubled, disordered, differing, wrong            int
	frames, epochs, void                                   int
}

// check compares what writers were told with the log.
func (r *record) check() (n counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.differing = r.differing
	where := make([][]int, len(r.writers))
	for i, w := range r.writers {
		where[i] = make([]int, len(w.calls))
	}
	for i := range r.parts {
		p := &r.parts[i]
		n.frames += p.frames
		n.void += p.void
		n.epochs += int(p.copy.Epoch)
		if len(p.log) != p.last {
			n.differing++
			r.complainLocked("partition %d ends at %d, and %d entries were read", i, p.last, len(p.log))
		}
		r.find(i, where, &n)
		r.checkOrder(i, &n)
	}
	for i, w := range r.writers {
		n.appends += len(w.calls)
		for k, c := range w.calls {
			pos := where[i][k]
			switch c.outcome {
			case acknowledged:
				n.acknowledged++
				if pos == 0 || c.pos != 0 && c.pos != pos {
					n.lost++
					r.complainLocked("frame %d of writer %d was acknowledged at %s for position %d and is at position %d of partition %d", k, i, c.answered, c.pos, pos, w.part)
				}
			case refused:
				n.refused++
				if pos != 0 {
					n.wrong++
					r.complainLocked("frame %d of writer %d was refused at %s and is at position %d of partition %d", k, i, c.answered, pos, w.part)
				}
			case unknown:
				n.unknown++
				if pos != 0 {
					n.unknownStored++
				}
			}
		}
	}
	return n
}

// find notes where each frame is.
func (r *record) find(part int, where [][]int, n *counts) {
	for _, one := range r.parts[part].placed {
		if !r.sent(part, one) {
			n.differing++
			r.complainLocked("position %d of partition %d has frame %d of writer %d, which was not sent there", one.pos, part, one.number, one.writer)
			continue
		}
		at := &where[one.writer][one.number]
		if *at != 0 {
			n.doubled++
			r.complainLocked("frame %d of writer %d is at positions %d and %d of partition %d", one.number, one.writer, *at, one.pos, part)
		}
		*at = int(one.pos)
	}
}

func (r *record) sent(part int, one placed) bool {
	return one.writer >= 0 && int(one.writer) < len(r.writers) && r.writers[one.writer].part == part &&
		one.number >= 0 && int(one.number) < len(r.writers[one.writer].calls)
}

// checkOrder goes from the end of a partition to its beginning: no frame was sent after a later one had been acknowledged.
func (r *record) checkOrder(part int, n *counts) {
	earliest := time.Duration(math.MaxInt64)
	list := r.parts[part].placed
	for i := len(list) - 1; i >= 0; i-- {
		if !r.sent(part, list[i]) {
			continue
		}
		c := r.writers[list[i].writer].calls[list[i].number]
		if c.called > earliest {
			n.disordered++
			r.complainLocked("frame %d of writer %d at position %d of partition %d was sent after a later one had been acknowledged", list[i].number, list[i].writer, list[i].pos, part)
		}
		if c.outcome == acknowledged {
			earliest = min(earliest, c.answered)
		}
	}
}
