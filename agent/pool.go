package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// PoolOptions of a Pool; the zero value works.
type PoolOptions struct {
	Lease time.Duration // how long a turn waits for a worker, or for its worker to come back; 0 means 60 s
}

// Pool gives turns to workers: agents outside of the process that connect and
// claim the turns of an agent name. A worker whose connection breaks has a lease
// to come back and go on; then the turn goes to another worker as a new attempt,
// or ends as interrupted when there is none.
type Pool struct {
	opt PoolOptions

	mu    sync.Mutex
	crews map[string]*crew
}

// crew is the workers and the turns of one agent name.
type crew struct {
	members []*member
	jobs    []*job
}

// member is a worker's seat.
type member struct {
	pool   *Pool
	name   string
	worker chat.Worker
	slots  int
	held   int
}

// job is a turn on its way to or with a worker.
type job struct {
	turn    *Turn
	holder  *member // nil: waits
	orphan  bool    // its worker is gone and may come back
	changed chan struct{}
	done    chan error
}

// NewPool returns an empty pool.
func NewPool(opt PoolOptions) *Pool {
	if opt.Lease == 0 {
		opt.Lease = 60 * time.Second
	}
	return &Pool{opt: opt, crews: map[string]*crew{}}
}

func (p *Pool) crew(name string) *crew {
	c := p.crews[name]
	if c == nil {
		c = &crew{}
		p.crews[name] = c
	}
	return c
}

func (p *Pool) agent(name string) Agent {
	return Func(func(ctx context.Context, turn *Turn) error { return p.answer(ctx, name, turn) })
}

func (p *Pool) list() []Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Info
	for name, c := range p.crews {
		if len(c.members) > 0 || len(c.jobs) > 0 {
			all = append(all, Info{Name: name, Kind: "worker", Healthy: len(c.members) > 0, Workers: len(c.members)})
		}
	}
	return all
}

// Join adds a worker of an agent name that answers up to slots turns at once.
// Turns that it held before its connection broke are given to it again.
func (p *Pool) Join(name string, w chat.Worker, slots int, holding []chat.TurnID) chat.Seat {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &member{pool: p, name: name, worker: w, slots: max(1, slots)}
	c := p.crew(name)
	c.members = append(c.members, m)
	for _, j := range c.jobs {
		if j.holder == nil && slices.Contains(holding, j.turn.Ref.Turn) {
			c.give(j, m)
		}
	}
	c.share()
	return m
}

// Leave takes a worker out. Its turns wait for it to come back.
func (m *member) Leave() {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.crew(m.name)
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
	for _, j := range c.jobs {
		if j.holder == m {
			j.holder, j.orphan = nil, true
			j.notify()
		}
	}
	p.tidy(m.name)
}

// Holds returns the turn that a member has, as it is now.
func (m *member) Holds(turn chat.TurnID) (chat.TurnRef, error) {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.crew(m.name).jobs {
		if j.holder == m && j.turn.Ref.Turn == turn {
			return j.turn.Ref, nil
		}
	}
	return chat.TurnRef{}, chat.Errorf(chat.Conflict, "turn %s is not yours: it has ended or was given to another worker", turn)
}

// Finish ends a turn that a member has; cause is nil when it is done.
func (m *member) Finish(turn chat.TurnID, cause error) error {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.crew(m.name).jobs {
		if j.holder == m && j.turn.Ref.Turn == turn {
			select {
			case j.done <- cause:
			default:
			}
			return nil
		}
	}
	return chat.Errorf(chat.Conflict, "turn %s is not yours: it has ended or was given to another worker", turn)
}

func (p *Pool) tidy(name string) {
	if c := p.crews[name]; c != nil && len(c.members) == 0 && len(c.jobs) == 0 {
		delete(p.crews, name)
	}
}

// share gives turns that wait to workers that are free, the least busy first.
func (c *crew) share() {
	for _, j := range c.jobs {
		if j.holder != nil || j.orphan {
			continue
		}
		var best *member
		for _, m := range c.members {
			if m.held < m.slots && (best == nil || m.held < best.held) {
				best = m
			}
		}
		if best == nil {
			return
		}
		c.give(j, best)
	}
}

func (c *crew) give(j *job, m *member) {
	j.holder, j.orphan = m, false
	m.held++
	t := j.turn
	m.worker.Give(chat.Assignment{
		TurnRef: t.Ref, Agent: t.Agent, Workstream: t.Workstream, Trigger: t.Trigger, Events: t.Past(), Open: t.Open(),
	})
	t.box.follow(func(e chat.Event) { m.worker.Tell(t.Ref.Turn, e) })
	j.notify()
}

func (j *job) notify() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// answer sees a turn through: given to a worker, kept over a broken connection,
// passed on, done.
func (p *Pool) answer(ctx context.Context, name string, turn *Turn) error {
	j := &job{turn: turn, changed: make(chan struct{}, 1), done: make(chan error, 1), orphan: turn.Resumed()}
	p.mu.Lock()
	c := p.crew(name)
	c.jobs = append(c.jobs, j)
	c.share()
	alone := len(c.members) == 0
	p.mu.Unlock()
	defer p.drop(name, j)
	if alone && !turn.Resumed() {
		if err := turn.note(ctx, "waiting", chat.AgentStatus{Message: "Waiting for a worker of agent " + name + " to connect.", Phase: "waiting"}); err != nil {
			return err
		}
	}
	lease := time.NewTimer(p.opt.Lease)
	defer lease.Stop()
	for {
		select {
		case err := <-j.done:
			return err
		case <-ctx.Done():
			return p.recall(ctx, j)
		case <-j.changed:
			lease.Reset(p.opt.Lease)
		case <-lease.C:
			if err := p.expired(ctx, name, j); err != nil {
				return err
			}
			lease.Reset(p.opt.Lease)
		}
	}
}

// expired decides what becomes of a turn that no worker has had for a lease.
func (p *Pool) expired(ctx context.Context, name string, j *job) error {
	p.mu.Lock()
	held, orphan, crew := j.holder != nil, j.orphan, p.crew(name)
	others := len(crew.members) > 0
	p.mu.Unlock()
	switch {
	case held:
		return nil
	case !orphan && !others:
		return chat.Errorf(chat.Unavailable, "no worker of agent %q connected within %s; start one, or choose another agent", name, p.opt.Lease)
	case !orphan:
		return nil // all are busy: it waits for its turn
	case !others:
		return errors.Join(chat.Errorf(chat.Unavailable, "the worker of agent %q did not come back within %s", name, p.opt.Lease), ErrInterrupted)
	}
	if err := j.turn.again(ctx, "its worker did not come back"); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	j.orphan = false
	crew.share()
	return nil
}

// recall tells the worker to stop and gives it a moment to end by itself.
func (p *Pool) recall(ctx context.Context, j *job) error {
	p.mu.Lock()
	m := j.holder
	if m != nil && Stopped(ctx) {
		m.worker.Stop(j.turn.Ref.Turn)
	}
	p.mu.Unlock()
	if m == nil || !Stopped(ctx) {
		return context.Cause(ctx)
	}
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-j.done:
	case <-patience.C:
	}
	return context.Cause(ctx)
}

// stopPatience is how long a worker may take to end a stopped turn by itself;
// with it a stop stays within a second.
const stopPatience = 800 * time.Millisecond

func (p *Pool) drop(name string, j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.crew(name)
	c.jobs = slices.DeleteFunc(c.jobs, func(o *job) bool { return o == j })
	if j.holder != nil {
		j.holder.held--
	}
	j.turn.box.follow(func(chat.Event) {})
	c.share()
	p.tidy(name)
}
