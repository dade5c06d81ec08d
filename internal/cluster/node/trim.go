package node

import (
	"context"
	"sort"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/sleep"
)

// trimPart says how often logs are trimmed: every Keep/trimPart.
const trimPart = 120

// trim trims the logs of the partitions that this node owns until ctx ends.
func (n *Node) trim(ctx context.Context, log cluster.Log) {
	for sleep.For(ctx, n.opt.Trim.Keep/trimPart) == nil {
		for _, p := range n.parts {
			if !p.status().Owns {
				continue
			}
			if err := n.trimOne(ctx, p, log); err != nil && ctx.Err() == nil {
				n.log.Debug("the log of a partition could not be trimmed; trying again later", "partition", p.number, "err", err)
			}
		}
	}
}

func (n *Node) trimOne(ctx context.Context, p *part, log cluster.Log) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := n.purgeErased(ctx, p); err != nil {
		return err
	}
	var size cluster.LogSize
	if size.First, size.Last, err = log.Ends(ctx, p.number); err != nil {
		return err
	}
	if l, ok := log.(cluster.Sized); ok {
		if size.Bytes, err = l.Size(ctx, p.number); err != nil {
			return err
		}
	}
	now := time.Now()
	upTo := n.opt.Trim.UpTo(p.syncedPos(), p.at(now.Add(-n.opt.Trim.Keep)), p.get().Peers(), size, now)
	if upTo < size.First {
		return nil
	}
	if err := log.Trim(ctx, p.number, upTo); err != nil {
		return err
	}
	n.log.Debug("the log of a partition was trimmed", "partition", p.number, "from", size.First, "to", upTo, "last", size.Last, "bytes", size.Bytes)
	return nil
}

// sampleEvery is how often the positions of the partitions are noted.
const sampleEvery = 250 * time.Millisecond

// sample notes positions until ctx ends.
func (n *Node) sample(ctx context.Context) {
	every := min(sampleEvery, n.opt.Trim.Keep/4)
	for {
		now := time.Now()
		for _, p := range n.parts {
			p.note(now, p.status().Copy.Pos, n.opt.Trim.Keep)
		}
		if sleep.For(ctx, every) != nil {
			return
		}
	}
}

// sample is a position that a partition had on this node.
type sample struct {
	at  time.Time
	pos cluster.Pos
}

// note adds a sample and drops those that nobody needs.
func (p *part) note(now time.Time, pos cluster.Pos, keep time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.samples); n > 0 && p.samples[n-1].pos == pos {
		return
	}
	p.samples = append(p.samples, sample{now, pos})
	old := 0
	for old+1 < len(p.samples) && now.Sub(p.samples[old+1].at) > keep {
		old++
	}
	p.samples = p.samples[old:]
}

// at returns the position that the partition had at a time, 0 if this node does not know it.
func (p *part) at(when time.Time) cluster.Pos {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := sort.Search(len(p.samples), func(i int) bool { return p.samples[i].at.After(when) })
	if i == 0 {
		return 0
	}
	return p.samples[i-1].pos
}

// reachedAt returns when this node had applied more than a position.
func (p *part) reachedAt(pos cluster.Pos) (when time.Time, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := sort.Search(len(p.samples), func(i int) bool { return p.samples[i].pos > pos })
	if i == len(p.samples) {
		return time.Time{}, false
	}
	return p.samples[i].at, true
}
