package agentpool

import (
	"context"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
)

// registration is a connected worker.
type registration struct {
	pool   *Pool
	key    groupKey
	worker chat.Worker
	slots  int
	held   int
	claims []chat.TurnID // open turns that the worker had on an earlier connection
	ended  []turnEnd     // the last turns whose end the worker reported or received
}

// Join registers a worker of an agent name in a workspace that answers up to slots turns at once. The turns that it had
// before its connection broke are given to it again: at once, or when the server gives up the broken connection.
func (p *Pool) Join(workspace, name string, w chat.Worker, slots int, holding []chat.TurnID) chat.Registration {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := groupKey{workspace, name}
	r := &registration{pool: p, key: k, worker: w, slots: max(1, slots), claims: slices.Clone(holding)}
	g := p.group(k)
	g.workers = append(g.workers, r)
	for _, j := range g.jobs {
		switch {
		case j.holder != nil || j.moving:
		case slices.Contains(holding, j.turn.id):
			j.give(r)
		case j.orphaned:
			if j.restarted && len(g.workers) == 1 {
				j.since = time.Now() // its own worker reconnects about now too
			}
			j.notify() // this worker can get it after the grace period
		}
	}
	g.assign()
	p.sendEnded(r)
	return r
}

// claimant returns the worker that had a turn on an earlier connection, or nil.
func (g *workerGroup) claimant(turn chat.TurnID) *registration {
	if i := slices.IndexFunc(g.workers, func(r *registration) bool { return slices.Contains(r.claims, turn) }); i >= 0 {
		return g.workers[i]
	}
	return nil
}

// Leave removes a worker. Its turns wait for it to return, unless it has returned on another connection already.
func (r *registration) Leave() {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.group(r.key)
	g.workers = slices.DeleteFunc(g.workers, func(o *registration) bool { return o == r })
	for _, j := range g.jobs {
		if j.holder != r {
			continue
		}
		j.holder, j.orphaned, j.restarted, j.since = nil, true, false, time.Now()
		j.turn.in.Follow(nil)
		if back := g.claimant(j.turn.id); back != nil {
			j.give(back)
		}
		j.notify()
	}
	p.removeEmpty(r.key)
}

// Holds returns a turn that the worker has, in its current attempt.
func (r *registration) Holds(turn chat.TurnID) (chat.TurnRef, error) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	j, err := r.job(turn)
	if err != nil {
		return chat.TurnRef{}, err
	}
	return j.turn.Ref(), nil
}

// Ending returns a function that waits until the end of a turn that the worker has is in the log.
func (r *registration) Ending(turn chat.TurnID) (func(context.Context) error, error) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	j, err := r.job(turn)
	if err == nil {
		return j.turn.in.waitEnd, nil
	}
	if e := r.endOf(turn); e != nil {
		return e.wait, nil
	}
	return nil, err
}

// Finish ends a turn that the worker has; cause is nil when it is done.
func (r *registration) Finish(turn chat.TurnID, cause error) error {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	j, err := r.job(turn)
	if err != nil {
		if r.endOf(turn) != nil {
			return nil // a repeated report
		}
		return err
	}
	select {
	case j.done <- cause:
	default: // it was finished before
	}
	if r.endOf(turn) == nil {
		r.rememberEnd(turnEnd{turn, j.turn.in.waitEnd})
	}
	return nil
}

// job finds a turn that the worker has. The caller holds Pool.mu.
func (r *registration) job(turn chat.TurnID) (*job, error) {
	if g := r.pool.groups[r.key]; g != nil {
		for _, j := range g.jobs {
			if j.holder == r && j.turn.id == turn {
				return j, nil
			}
		}
	}
	return nil, chat.Errorf(chat.Conflict, "turn %s is not yours: it has ended or was given to another worker", turn)
}
