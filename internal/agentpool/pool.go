package agentpool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// PoolOptions configures a Pool; the zero value has defaults.
type PoolOptions struct {
	Lease time.Duration // how long a turn waits for a worker, or for its worker to return; 0 means 60 s
	Grace time.Duration // how long a turn is kept for its worker while others are connected; 0 means 10 s
}

// Pool gives turns to workers: agents outside of the process that connect and claim the turns of an agent name. A worker
// that lost its connection may return and continue. After a grace period the turn goes to another worker that is
// connected or connects later, as a new attempt. If there is none within the lease, the turn ends as interrupted.
//
// After a start of the server the grace period begins when the first worker of the name connects, because all workers
// reconnect at about the same time.
//
// The methods of workers are called with a lock held, so that they are called in order; they must not block or call back.
type Pool struct {
	opt PoolOptions

	mu     sync.Mutex
	groups map[groupKey]*workerGroup
	open   func() map[chat.TurnID]bool // the turns that have not ended in the log; nil until they are known

	// For a node of a cluster; see nodes.go.
	nodes   Nodes // nil on a single server
	turns   turnReader
	out     outbox
	changed chan struct{}              // a worker of this node has changed; has room for one
	locals  map[uint64]*registration   // the workers of this node
	remotes map[remoteID]*registration // the workers of other nodes
	gone    []uint64                   // workers of this node that have left, until that is sent to the other nodes
}

// groupKey is an agent name in a workspace. Workers of one workspace get no turns of another.
type groupKey struct{ workspace, name string }

// workerGroup has the workers and the turns of one agent name.
type workerGroup struct {
	workers []*registration
	jobs    []*job               // in order of arrival
	byTurn  map[chat.TurnID]*job // every piece of a worker is looked up here
}

// job is a turn that waits for a worker or that a worker has.
type job struct {
	turn    *turn
	changed chan struct{} // a worker took the job or left; has room for one
	done    chan error

	// Guarded by Pool.mu.
	holder            *registration // nil: the job waits
	awaitingReconnect bool          // its worker is disconnected and may return
	given             bool          // awaitingReconnect before it was given to holder
	moving            bool          // a new attempt begins; no worker can get the job meanwhile
	since             time.Time     // when it lost its worker

	restarted bool // awaitingReconnect is set because the server was restarted
}

// NewPool returns an empty pool.
func NewPool(opt PoolOptions) *Pool {
	opt.Lease = cmp.Or(opt.Lease, 60*time.Second)
	opt.Grace = min(cmp.Or(opt.Grace, 10*time.Second), opt.Lease)
	return &Pool{
		opt: opt, groups: map[groupKey]*workerGroup{}, changed: make(chan struct{}, 1),
		locals: map[uint64]*registration{}, remotes: map[remoteID]*registration{},
	}
}

func (p *Pool) group(k groupKey) *workerGroup {
	g := p.groups[k]
	if g == nil {
		g = &workerGroup{byTurn: map[chat.TurnID]*job{}}
		p.groups[k] = g
	}
	return g
}

func (p *Pool) list(workspace string) []agent.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []agent.Info
	for k, g := range p.groups {
		if k.workspace == workspace && (len(g.workers) > 0 || len(g.jobs) > 0) {
			info := agent.Info{Name: k.name, Kind: "worker", Healthy: len(g.workers) > 0, Workers: len(g.workers)}
			if n := len(g.workers); n > 0 {
				info.Commands = g.workers[n-1].commands
			}
			all = append(all, info)
		}
	}
	return all
}

// removeEmpty removes a group that has neither workers nor turns.
func (p *Pool) removeEmpty(k groupKey) {
	if g := p.groups[k]; g != nil && len(g.workers) == 0 && len(g.jobs) == 0 {
		delete(p.groups, k)
	}
}

// room returns how many more turns a worker can get. The caller holds mu.
func (p *Pool) room(r *registration) int {
	if r.remote != nil {
		return r.remote.free + r.remote.given - r.held
	}
	n := r.slots - r.held - len(r.turns)
	if p.nodes != nil && time.Since(r.named) < claimTime {
		n -= len(r.claims) // the worker still has them, and gets them again soon
	}
	return n
}

// assign gives waiting turns to workers with free slots, the least busy first. The caller holds mu.
func (p *Pool) assign(g *workerGroup) {
	for _, j := range g.jobs {
		if j.holder != nil || j.awaitingReconnect || j.moving {
			continue
		}
		var best *registration
		least := 0
		for _, w := range g.workers {
			room := p.room(w)
			busy := w.slots - room
			if room > 0 && (best == nil || busy < least || busy == least && best.remote != nil && w.remote == nil) {
				best, least = w, busy
			}
		}
		if best == nil {
			return
		}
		p.give(j, best)
	}
}

// give gives a turn to a worker. The caller holds mu.
func (p *Pool) give(j *job, w *registration) {
	j.holder, j.given, j.awaitingReconnect = w, j.awaitingReconnect, false
	w.held++
	w.removeClaim(j.turn.id)
	delete(w.turns, j.turn.id) // this node has taken it over
	w.worker.Give(j.turn.current())
	j.turn.in.Follow(func(e chat.Event) { w.worker.Tell(j.turn.id, e) })
	j.notify()
	p.touch(w)
}

func (j *job) notify() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// errTaken means that an agent in the process got the name of a turn that no worker has.
var errTaken = errors.New("an agent of the server has the name now")

// wake lets the waiting turns of a name check whether an agent in the process has the name.
func (p *Pool) wake(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, g := range p.groups {
		if k.name == name {
			for _, j := range g.jobs {
				j.notify()
			}
		}
	}
}

// answer gives a turn to workers until it has ended. While no worker has it, taken reports whether an agent in the process
// has the name; then answer returns errTaken.
func (p *Pool) answer(ctx context.Context, k groupKey, t *turn, taken func() bool) error {
	j := &job{turn: t, changed: make(chan struct{}, 1), done: make(chan error, 1), awaitingReconnect: t.resumed(), restarted: t.resumed(), since: time.Now()}
	p.mu.Lock()
	g := p.group(k)
	g.jobs, g.byTurn[t.id] = append(g.jobs, j), j
	if w := g.claimant(t.id); w != nil {
		p.give(j, w) // it reconnected before the turn was found again
	}
	p.assign(g)
	noWorker := len(g.workers) == 0
	p.mu.Unlock()
	defer p.remove(k, j)
	if noWorker && !t.resumed() {
		if err := t.storeOnce(ctx, "waiting", chat.AgentStatus{Message: "Waiting for a worker of agent " + k.name + " to connect.", Phase: "waiting"}); err != nil {
			return err
		}
	}
	lease := time.NewTimer(p.due(k, j))
	defer lease.Stop()
	for {
		if taken() && p.claim(j) {
			return p.handOver(ctx, j)
		}
		select {
		case err := <-j.done:
			return err
		case <-ctx.Done():
			return p.stop(ctx, j)
		case <-j.changed:
			lease.Reset(p.due(k, j))
			if err := p.deliver(ctx, j); err != nil {
				return err
			}
		case <-t.in.arrived:
			if err := p.deliver(ctx, j); err != nil {
				return err
			}
		case <-lease.C:
			again, err := p.expired(ctx, k, j)
			if err != nil {
				return err
			}
			lease.Reset(again)
		}
	}
}

// claim keeps a turn from all workers, unless a worker has it or has finished it, and reports whether it could.
func (p *Pool) claim(j *job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.moving = j.holder == nil && len(j.done) == 0
	return j.moving
}

// handOver leaves a turn to an agent in the process. If a worker had begun the turn, this is a new attempt.
func (p *Pool) handOver(ctx context.Context, j *job) error {
	if j.awaitingReconnect {
		if err := j.turn.nextAttempt(ctx, "its agent was replaced", !j.restarted); err != nil {
			return err
		}
	}
	return errTaken
}

// deliver adds events that arrived during the turn to its input, if a worker has the turn.
func (p *Pool) deliver(ctx context.Context, j *job) error {
	p.mu.Lock()
	held := j.holder != nil
	p.mu.Unlock()
	if !held {
		return nil
	}
	events, err := j.turn.TakeEvents(ctx)
	if chat.CodeOf(err) == chat.Unavailable {
		return nil // the events stay queued and are answered after the turn
	}
	for _, e := range events {
		j.turn.in.Put(e)
	}
	return err
}

// due returns how long to wait before expired is called for a turn.
func (p *Pool) due(k groupKey, j *job) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.untilExpired(len(p.group(k).workers) > 0, j)
}

// untilExpired returns the time until a turn has waited too long for a worker; others says whether workers are connected. The caller
// holds mu.
func (p *Pool) untilExpired(others bool, j *job) time.Duration {
	switch {
	case j.holder != nil:
		return p.opt.Lease
	case j.awaitingReconnect && others:
		return p.opt.Grace - time.Since(j.since)
	}
	return p.opt.Lease - time.Since(j.since)
}

// expired ends a turn that got no worker in time, or gives it to another worker. It returns when to check again.
func (p *Pool) expired(ctx context.Context, k groupKey, j *job) (again time.Duration, err error) {
	p.mu.Lock()
	others := len(p.group(k).workers) > 0
	switch left := p.untilExpired(others, j); {
	case left > 0:
		p.mu.Unlock()
		return left, nil
	case !j.awaitingReconnect && others:
		p.mu.Unlock()
		return p.opt.Lease, nil // all workers are busy
	case !j.awaitingReconnect:
		p.mu.Unlock()
		return 0, agent.Failf(agent.CodeNoWorker, chat.Unavailable, "no worker of agent %q connected within %s; start one, or choose another agent", k.name, p.opt.Lease)
	case !others:
		p.mu.Unlock()
		return 0, errors.Join(agent.Failf(agent.CodeLost, chat.Unavailable, "the worker of agent %q did not come back within %s; start it again, then ask again", k.name, p.opt.Lease), agent.ErrInterrupted)
	}
	j.moving = true
	crash := !j.restarted // after a restart of the server the worker need not have crashed
	p.mu.Unlock()
	err = j.turn.nextAttempt(ctx, "its worker did not come back", crash)
	p.mu.Lock()
	defer p.mu.Unlock()
	j.moving, j.awaitingReconnect, j.restarted, j.since = false, false, false, time.Now()
	if err == nil {
		p.assign(p.group(k))
	}
	return p.opt.Lease, err
}

// stop sends the worker a stop and waits workerStopTimeout for it to end the turn itself. A worker that reconnects in
// time gets the stop too.
func (p *Pool) stop(ctx context.Context, j *job) error {
	if !agent.Stopped(ctx) {
		return context.Cause(ctx)
	}
	timeout := time.NewTimer(j.turn.in.stopTimeout(workerStopTimeout))
	defer timeout.Stop()
	var notified *registration
	for {
		p.mu.Lock()
		w, begun := j.holder, j.holder != nil || j.awaitingReconnect
		if w != nil && w != notified {
			w.worker.Stop(j.turn.id)
		}
		notified = w
		p.mu.Unlock()
		if !begun {
			return context.Cause(ctx)
		}
		select {
		case <-j.changed:
			continue
		case <-j.done:
		case <-j.turn.in.abandoned:
		case <-timeout.C:
		}
		return context.Cause(ctx)
	}
}

// workerStopTimeout is how long a worker may take to end a stopped turn itself; with it a stop takes less than a second.
const workerStopTimeout = 800 * time.Millisecond

func (p *Pool) remove(k groupKey, j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.group(k)
	g.jobs = slices.DeleteFunc(g.jobs, func(o *job) bool { return o == j })
	if g.byTurn[j.turn.id] == j {
		delete(g.byTurn, j.turn.id)
	}
	if w := j.holder; w != nil {
		w.held--
		if p.nodes != nil && w.endOf(j.turn.id) == nil {
			// The worker has not reported the end. It learns it when it is in the log, or gets the turn from another owner.
			w.claims = append(w.claims, j.turn.id)
			w.claimed, w.named = true, time.Now()
		}
		p.touch(w)
	}
	j.turn.in.Follow(nil)
	p.assign(g)
	p.removeEmpty(k)
}
