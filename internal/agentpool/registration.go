package agentpool

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// registration is a connected worker.
type registration struct {
	pool     *Pool
	key      groupKey
	worker   core.Worker
	slots    int
	held     int
	commands []chat.AgentCommand // that the worker announced
	claims   []chat.TurnID       // open turns that the worker had on an earlier connection
	ended    []turnEnd           // the last turns whose end the worker reported or received

	// In a cluster:
	remote  *remoteWorker               // nil for a worker of this node
	id      uint64                      // of a worker of this node
	turns   map[chat.TurnID]*remoteTurn // turns of other nodes that a worker of this node has
	touched bool                        // it has changed since it was sent to the other nodes
	claimed bool                        // its turns have, too
	named   time.Time                   // when the last turn was added to claims
}

// Register adds a worker of an agent name in a workspace that answers up to slots turns at once. The turns that it had
// before its connection broke are given to it again: at once, or when the server gives up the broken connection.
func (p *Pool) Register(workspace, name string, w core.Worker, slots int, holding []chat.TurnID) core.Registration {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := groupKey{workspace, name}
	r := &registration{
		pool: p, key: k, worker: w, slots: max(1, slots), claims: slices.Clone(holding),
		id: rand.Uint64(), turns: map[chat.TurnID]*remoteTurn{}, claimed: len(holding) > 0, named: time.Now(),
	}
	if d, ok := w.(commander); ok {
		r.commands = d.Commands()
	}
	p.locals[r.id] = r
	g := p.group(k)
	g.workers = append(g.workers, r)
	for _, j := range g.jobs {
		if j.holder == nil && !j.moving && slices.Contains(holding, j.turn.id) {
			p.give(j, r)
		}
	}
	g.added()
	p.assign(g)
	p.sendEnded(r)
	p.touch(r)
	return r
}

// added is called after a worker was added to the group.
func (g *workerGroup) added() {
	for _, j := range g.jobs {
		if j.holder == nil && !j.moving && j.awaitingReconnect {
			if j.restarted && len(g.workers) == 1 {
				j.since = time.Now() // its own worker reconnects about now too
			}
			j.notify() // this worker can get it after the grace period
		}
	}
}

// claimant returns the worker that had a turn on an earlier connection, or nil.
func (g *workerGroup) claimant(turn chat.TurnID) *registration {
	for _, r := range g.workers {
		if r.turns[turn] != nil || slices.Contains(r.claims, turn) {
			return r
		}
	}
	return nil
}

// Leave removes a worker. Its turns wait for it to return, unless it has returned on another connection already.
func (r *registration) Leave() {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.pool.leave(r)
}

// leave removes a worker. The caller holds mu.
func (p *Pool) leave(r *registration) {
	if r.remote != nil {
		delete(p.remotes, r.remote.id)
	} else if delete(p.locals, r.id); p.nodes != nil {
		p.gone = append(p.gone, r.id)
		p.touch(r)
	}
	g := p.group(r.key)
	g.workers = slices.DeleteFunc(g.workers, func(o *registration) bool { return o == r })
	for _, j := range g.jobs {
		if j.holder != r {
			continue
		}
		j.holder, j.awaitingReconnect, j.restarted, j.since = nil, true, false, time.Now()
		j.turn.in.Follow(nil)
		if back := g.claimant(j.turn.id); back != nil {
			p.give(j, back)
		}
		j.notify()
	}
	p.removeEmpty(r.key)
}

// Holds returns a turn that the worker has, in its current attempt.
func (r *registration) Holds(turn chat.TurnID) (chat.TurnRef, error) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if t, err := r.remoteTurn(turn); t != nil || err != nil {
		return t.reference(), err
	}
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
	if t, err := r.remoteTurn(turn); t != nil || err != nil {
		return func(ctx context.Context) error { return r.waitReported(ctx, turn) }, err
	}
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
	if t, err := r.remoteTurn(turn); t != nil || err != nil {
		if t != nil {
			delete(r.turns, turn) // its slot is free
			r.rememberEnd(turnEnd{turn, r.pool.report(r, t, cause)})
			r.pool.assign(r.pool.group(r.key))
			r.pool.touch(r)
		}
		return err
	}
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
		if j := g.byTurn[turn]; j != nil && j.holder == r {
			return j, nil
		}
	}
	return nil, chat.Errorf(chat.Conflict, "turn %s is not yours: it has ended or was given to another worker", turn)
}
