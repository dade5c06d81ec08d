package agentpool

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// In this file are the turns of sessions that other nodes own, on the node of the worker that has them. The owner's side is in remote.go.

// remoteTurn is a turn of a session that another node of the cluster owns, and that a worker of this node has. The fields are guarded by
// Pool.mu.
type remoteTurn struct {
	ref   chat.TurnRef
	owner string
	epoch uint64 // in which the owner gave it

	queue   []*turnMessage // of the owner, not handled yet
	working bool           // a goroutine handles them
}

// turnReader reads turns from this node's copy of the sessions.
type turnReader interface {
	assignment(ctx context.Context, m *turnMessage) (chat.Assignment, error)
	event(ctx context.Context, m *turnMessage) (chat.Event, error)
	ended(ctx context.Context, turn chat.TurnID) bool // false if that is not known
}

// errMoved means that the turn is being moved to another owner, or is assigned anew. The worker connects again, and gets the turn
// in its current attempt.
var errMoved = chat.Errorf(chat.Unavailable, "another node has taken the session over; connect again to go on with the turn").WithReason(chat.OwnerChanged)

// maxTurnQueue bounds the messages about a turn that its worker's node has not handled yet. When there are more, the worker is told to
// connect again, and gets the turn and its events again.
const maxTurnQueue = 10_000

// take takes a message of the owner of a turn for a worker of this node. The caller holds mu.
func (p *Pool) take(m *turnMessage) (answer string) {
	r := p.locals[m.Worker]
	if r == nil {
		return answerGone
	}
	turn := m.Turn.Turn
	t := r.turns[turn]
	switch m.Op {
	case "give":
		if t == nil && !slices.Contains(r.claims, turn) && p.room(r) <= 0 {
			p.touch(r)
			return answerFull
		}
		if t == nil {
			t = &remoteTurn{}
			r.turns[turn] = t
			r.removeClaim(turn)
		}
		if t.epoch <= m.Epoch { // else a former owner has sent it
			t.ref, t.owner, t.epoch = m.Turn, m.Owner, m.Epoch
			p.touch(r)
		}
	case "ended":
		if t != nil || slices.Contains(r.claims, turn) {
			delete(r.turns, turn)
			p.end(r, turn)
			p.assign(p.group(r.key))
		}
		return answerTaken
	}
	switch {
	case t == nil || t.epoch > m.Epoch:
		return answerTaken // the worker has ended the turn, or got it from another owner
	case t.epoch < m.Epoch, len(t.queue) >= maxTurnQueue:
		r.reconnect()
		return answerGone
	}
	t.queue = append(t.queue, m)
	if !t.working {
		t.working = true
		go p.work(r, t)
	}
	return answerTaken
}

// work passes the messages of a turn's owner to the worker, when this node has applied what they are about.
func (p *Pool) work(r *registration, t *remoteTurn) {
	for {
		p.mu.Lock()
		m, ok := takeFirst(&t.queue)
		t.working = ok
		p.mu.Unlock()
		if !ok {
			return
		}
		tell, err := p.prepare(r, m)
		p.mu.Lock()
		switch current := p.locals[r.id] == r && r.turns[m.Turn.Turn] == t && t.epoch == m.Epoch; {
		case !current:
		case err != nil:
			r.reconnect()
		default:
			tell()
		}
		p.mu.Unlock()
	}
}

// prepare reads what a message is about. The function that it returns tells the worker.
func (p *Pool) prepare(r *registration, m *turnMessage) (tell func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	if err := p.nodes.Reach(ctx, m.Turn.Turn, m.Pos); err != nil {
		return nil, err
	}
	switch m.Op {
	case "give":
		a, err := p.turns.assignment(ctx, m)
		return func() { r.worker.Give(a) }, err
	case "tell":
		e, err := p.turns.event(ctx, m)
		return func() { r.worker.Tell(m.Turn.Turn, e) }, err
	case "stop":
		return func() { r.worker.Stop(m.Turn.Turn) }, nil
	}
	return func() {}, nil
}

// current reports whether the turn still belongs to the owner that gave it.
func (p *Pool) current(t *remoteTurn) bool {
	node, epoch := p.nodes.Owner(t.ref.Turn)
	return node == t.owner && epoch == t.epoch
}

// remoteTurn returns a turn of another node that the worker has, nil if it has none of that id. It fails with errMoved if the turn
// has to be assigned to the worker again. The caller holds Pool.mu.
func (r *registration) remoteTurn(turn chat.TurnID) (*remoteTurn, error) {
	p := r.pool
	if p.nodes == nil || r.remote != nil {
		return nil, nil
	}
	switch t := r.turns[turn]; {
	case t != nil && p.current(t):
		return t, nil
	case t != nil, slices.Contains(r.claims, turn):
		return nil, errMoved
	}
	if _, err := r.job(turn); err == nil && !p.here(turn) {
		return nil, errMoved
	}
	return nil, nil
}

// reference returns the turn in its current attempt.
func (t *remoteTurn) reference() chat.TurnRef {
	if t == nil {
		return chat.TurnRef{}
	}
	return t.ref
}

// waitReported waits until the end of a turn that Finish has reported is in the log.
func (r *registration) waitReported(ctx context.Context, turn chat.TurnID) error {
	r.pool.mu.Lock()
	e := r.endOf(turn)
	r.pool.mu.Unlock()
	if e == nil {
		return errMoved
	}
	return e.wait(ctx)
}

// report sends the end of a turn to its owner. The function that it returns waits until the end is in the log. The caller holds
// mu.
func (p *Pool) report(r *registration, t *remoteTurn, cause error) (wait func(ctx context.Context) error) {
	done := make(chan struct{})
	var result error
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		b, err := json.Marshal(finishMessage(p.nodes.Name(), r, t.ref, cause))
		var answer []byte
		if err == nil {
			answer, err = p.nodes.Ask(ctx, t.owner, t.ref.Turn, b)()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		refused := chat.CodeOf(err) == chat.Conflict
		if err == nil && string(answer) == answerGone || refused && (r.turns[t.ref.Turn] != nil || !p.current(t)) {
			err, refused = errMoved, false // there is another owner, which may have given the turn to the worker again
		}
		if result = err; err != nil && !refused {
			r.reconnect() // the worker reports the end again
		}
	}()
	return func(ctx context.Context) error {
		select {
		case <-done:
			return result
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reconnect asks the worker to connect again.
func (r *registration) reconnect() {
	if w, ok := r.worker.(interface{ Reconnect() }); ok {
		w.Reconnect()
	}
}

// assignment returns a turn of another node for a worker of this one.
func (r *Runner) assignment(ctx context.Context, m *turnMessage) (chat.Assignment, error) {
	u := &run{ref: m.Turn, line: line{m.Turn.Session, m.Line}, agent: m.Agent, started: m.Started, trigger: m.Trigger, resumed: m.Turn.Attempt > 1}
	u.in.init()
	t, err := r.load(ctx, u)
	if err != nil {
		return chat.Assignment{}, err
	}
	return t.current(), nil
}

// event returns an event of a turn of another node.
func (r *Runner) event(ctx context.Context, m *turnMessage) (chat.Event, error) {
	return r.sessions.Event(ctx, agentCaller(m.Agent), m.Turn.Session, m.Event)
}

// ended reports whether a turn has ended in the log. A turn whose session is gone has ended.
func (r *Runner) ended(ctx context.Context, turn chat.TurnID) bool {
	id, ok := chat.ParseID(chat.TurnPrefix, string(turn))
	if !ok {
		return true
	}
	s, _, err := r.sessions.ByID(ctx, agentCaller(""), id)
	if err == nil {
		open := false
		err = r.sessions.Turns(ctx, s.ID, func(ref chat.TurnRef, _ string, _ chat.Turn) { open = open || ref.Turn == turn })
		if err == nil {
			return !open
		}
	}
	return chat.CodeOf(err) == chat.NotFound || chat.CodeOf(err) == chat.Gone
}
