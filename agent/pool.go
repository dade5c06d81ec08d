package agent

import (
	"cmp"
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
	Grace time.Duration // how much of that it is kept from others that are there; 0 means 10 s
}

// Pool gives turns to workers: agents outside of the process that connect and
// claim the turns of an agent name. A worker whose connection breaks may come back
// and go on. After a grace the turn goes to another worker that is there or joins,
// as a new attempt; when there is none within the lease, it ends as interrupted.
//
// After a start of the server the grace begins when the first worker of the name
// is there: the workers find the server again at about the same time.
//
// The methods of workers are called with a lock held, so that they come in
// order; they must not block or call back.
type Pool struct {
	opt PoolOptions

	mu    sync.Mutex
	crews map[team]*crew
	open  func() map[chat.TurnID]bool // the turns that have not ended in the log; nil until they are known
}

// team is an agent name in a workspace: what is said in one workspace is not for
// the workers of another.
type team struct{ workspace, name string }

// crew is the workers and the turns of one team.
type crew struct {
	members []*member
	jobs    []*job
}

// member is a worker's seat.
type member struct {
	pool   *Pool
	team   team
	worker chat.Worker
	slots  int
	held   int
	claims []chat.TurnID // turns it had under an earlier connection and that have not ended, as far as is known
	ended  []turnEnd     // the last turns whose end it reported or was told
}

// job is a turn on its way to or with a worker.
type job struct {
	turn    *Turn
	changed chan struct{} // somebody took it or let it go; room for one
	done    chan error

	// Guarded by Pool.mu.
	holder *member   // nil: waits
	orphan bool      // its worker is gone and may come back
	moving bool      // a new attempt begins; nobody can have it meanwhile
	since  time.Time // it is without a worker

	restarted bool // it is an orphan because the server ended, not its worker
}

// NewPool returns an empty pool.
func NewPool(opt PoolOptions) *Pool {
	opt.Lease = cmp.Or(opt.Lease, 60*time.Second)
	opt.Grace = min(cmp.Or(opt.Grace, 10*time.Second), opt.Lease)
	return &Pool{opt: opt, crews: map[team]*crew{}}
}

func (p *Pool) crew(of team) *crew {
	c := p.crews[of]
	if c == nil {
		c = &crew{}
		p.crews[of] = c
	}
	return c
}

func (p *Pool) list(workspace string) []Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Info
	for of, c := range p.crews {
		if of.workspace == workspace && (len(c.members) > 0 || len(c.jobs) > 0) {
			all = append(all, Info{Name: of.name, Kind: "worker", Healthy: len(c.members) > 0, Workers: len(c.members)})
		}
	}
	return all
}

// tidy forgets a name that has neither workers nor turns.
func (p *Pool) tidy(of team) {
	if c := p.crews[of]; c != nil && len(c.members) == 0 && len(c.jobs) == 0 {
		delete(p.crews, of)
	}
}

// share gives turns that wait to workers that are free, the least busy first.
func (c *crew) share() {
	for _, j := range c.jobs {
		if j.holder != nil || j.orphan || j.moving {
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
		j.give(best)
	}
}

func (j *job) give(m *member) {
	j.holder, j.orphan = m, false
	m.held++
	m.claims = slices.DeleteFunc(m.claims, func(turn chat.TurnID) bool { return turn == j.turn.id })
	t := j.turn
	m.worker.Give(chat.Assignment{
		TurnRef: t.Ref(), Agent: t.Agent, Workstream: t.Workstream, Trigger: t.Trigger, Events: t.Past(), Open: t.Open(),
		Launch: t.launch, Paused: t.box.isPaused(),
	})
	t.box.follow(func(e chat.Event) { m.worker.Tell(t.id, e) })
	j.notify()
}

func (j *job) notify() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// errTaken says that a turn which no worker has is answered in the process: its
// agent's name was given to an agent of the server.
var errTaken = errors.New("an agent of the server has the name now")

// wake lets the turns of a name look who answers to it.
func (p *Pool) wake(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, c := range p.crews {
		if of.name != name {
			continue
		}
		for _, j := range c.jobs {
			j.notify()
		}
	}
}

// answer sees a turn through: given to a worker, kept over a broken connection,
// passed on, done. While no worker has it, taken says whether it is somebody
// else's now; then it returns errTaken.
func (p *Pool) answer(ctx context.Context, of team, turn *Turn, taken func() bool) error {
	j := &job{turn: turn, changed: make(chan struct{}, 1), done: make(chan error, 1), orphan: turn.Resumed(), restarted: turn.Resumed(), since: time.Now()}
	p.mu.Lock()
	c := p.crew(of)
	c.jobs = append(c.jobs, j)
	if i := slices.IndexFunc(c.members, func(m *member) bool { return slices.Contains(m.claims, turn.id) }); i >= 0 {
		j.give(c.members[i]) // it came back before the turn was found again
	}
	c.share()
	alone := len(c.members) == 0
	p.mu.Unlock()
	defer p.drop(of, j)
	if alone && !turn.Resumed() {
		if err := turn.note(ctx, "waiting", chat.AgentStatus{Message: "Waiting for a worker of agent " + of.name + " to connect.", Phase: "waiting"}); err != nil {
			return err
		}
	}
	lease := time.NewTimer(p.due(of, j))
	defer lease.Stop()
	for {
		if taken() && p.withhold(j) {
			return p.handOver(ctx, j)
		}
		select {
		case err := <-j.done:
			return err
		case <-ctx.Done():
			return p.recall(ctx, j)
		case <-j.changed:
			lease.Reset(p.due(of, j))
			if err := p.steer(ctx, j); err != nil {
				return err
			}
		case <-turn.box.spoke:
			if err := p.steer(ctx, j); err != nil {
				return err
			}
		case <-lease.C:
			again, err := p.expired(ctx, of, j)
			if err != nil {
				return err
			}
			lease.Reset(again)
		}
	}
}

// withhold keeps a turn that no worker has, and none has finished, from all of
// them, and reports whether it could.
func (p *Pool) withhold(j *job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.moving = j.holder == nil && len(j.done) == 0
	return j.moving
}

// handOver gives a turn up for the agent that has the name now. One that a worker
// had begun is a new attempt, which finds what there is.
func (p *Pool) handOver(ctx context.Context, j *job) error {
	if j.orphan {
		if err := j.turn.again(ctx, "its agent was replaced", !j.restarted); err != nil {
			return err
		}
	}
	return errTaken
}

// steer takes messages that arrived during the turn into it, if a worker is
// there to be told.
func (p *Pool) steer(ctx context.Context, j *job) error {
	p.mu.Lock()
	held := j.holder != nil
	p.mu.Unlock()
	if !held {
		return nil
	}
	seqs, err := j.turn.sessions.TakeNews(ctx, j.turn.Ref())
	if chat.CodeOf(err) == chat.Unavailable {
		return nil // what is not taken is answered after the turn
	}
	for _, seq := range seqs {
		var e chat.Event
		if e, err = j.turn.event(ctx, seq); err != nil {
			break
		}
		j.turn.box.put(e)
	}
	return err
}

// due says how long a turn is left as it is.
func (p *Pool) due(of team, j *job) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait(len(p.crew(of).members) > 0, j)
}

// wait is due; others says whether there are workers. The caller holds mu.
func (p *Pool) wait(others bool, j *job) time.Duration {
	switch {
	case j.holder != nil:
		return p.opt.Lease
	case j.orphan && others:
		return p.opt.Grace - time.Since(j.since)
	}
	return p.opt.Lease - time.Since(j.since)
}

// expired decides what becomes of a turn when its time has passed, and says when
// to look again.
func (p *Pool) expired(ctx context.Context, of team, j *job) (again time.Duration, err error) {
	p.mu.Lock()
	others := len(p.crew(of).members) > 0
	switch left := p.wait(others, j); {
	case left > 0:
		p.mu.Unlock()
		return left, nil
	case !j.orphan && others:
		p.mu.Unlock()
		return p.opt.Lease, nil // all are busy: it waits for its turn
	case !j.orphan:
		p.mu.Unlock()
		return 0, Failf(CodeNoWorker, chat.Unavailable, "no worker of agent %q connected within %s; start one, or choose another agent", of.name, p.opt.Lease)
	case !others:
		p.mu.Unlock()
		return 0, errors.Join(Failf(CodeLost, chat.Unavailable, "the worker of agent %q did not come back within %s; start it again, then ask again", of.name, p.opt.Lease), ErrInterrupted)
	}
	j.moving = true
	lost := !j.restarted // else the server ended; nothing says that the worker did
	p.mu.Unlock()
	err = j.turn.again(ctx, "its worker did not come back", lost)
	p.mu.Lock()
	defer p.mu.Unlock()
	j.moving, j.orphan, j.restarted, j.since = false, false, false, time.Now()
	if err == nil {
		p.crew(of).share()
	}
	return p.opt.Lease, err
}

// recall tells the worker to stop and gives it a moment to end by itself, also one
// that is gone and comes back in time.
func (p *Pool) recall(ctx context.Context, j *job) error {
	if !Stopped(ctx) {
		return context.Cause(ctx)
	}
	patience := time.NewTimer(j.turn.box.patience(stopPatience))
	defer patience.Stop()
	var told *member
	for {
		p.mu.Lock()
		m, begun := j.holder, j.holder != nil || j.orphan
		if m != nil && m != told {
			m.worker.Stop(j.turn.id)
		}
		told = m
		p.mu.Unlock()
		if !begun {
			return context.Cause(ctx)
		}
		select {
		case <-j.changed:
			continue
		case <-j.done:
		case <-j.turn.box.left:
		case <-patience.C:
		}
		return context.Cause(ctx)
	}
}

// stopPatience is how long a worker may take to end a stopped turn by itself;
// with it a stop stays within a second.
const stopPatience = 800 * time.Millisecond

func (p *Pool) drop(of team, j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.crew(of)
	c.jobs = slices.DeleteFunc(c.jobs, func(o *job) bool { return o == j })
	if j.holder != nil {
		j.holder.held--
	}
	j.turn.box.follow(nil)
	c.share()
	p.tidy(of)
}
