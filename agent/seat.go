package agent

import (
	"context"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Join adds a worker of an agent name in a workspace that answers up to slots turns at once.
// Turns that it held before its connection broke are given to it again: at once,
// or when the broken connection, which may look alive for a while, is given up.
func (p *Pool) Join(workspace, name string, w chat.Worker, slots int, holding []chat.TurnID) chat.Seat {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := team{workspace, name}
	m := &member{pool: p, team: of, worker: w, slots: max(1, slots), claims: slices.Clone(holding)}
	c := p.crew(of)
	c.members = append(c.members, m)
	for _, j := range c.jobs {
		switch {
		case j.holder != nil || j.moving:
		case slices.Contains(holding, j.turn.id):
			j.give(m)
		case j.orphan:
			if j.restarted && len(c.members) == 1 {
				j.since = time.Now() // its own worker finds the server again about now too
			}
			j.notify() // there is somebody to have it when its grace is over
		}
	}
	c.share()
	p.release(m)
	return m
}

// Leave takes a worker out. Its turns wait for it to come back, unless it is
// back already under another connection.
func (m *member) Leave() {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.crew(m.team)
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
	for _, j := range c.jobs {
		if j.holder != m {
			continue
		}
		j.holder, j.orphan, j.restarted, j.since = nil, true, false, time.Now()
		j.turn.box.follow(nil)
		if i := slices.IndexFunc(c.members, func(o *member) bool { return slices.Contains(o.claims, j.turn.id) }); i >= 0 {
			j.give(c.members[i])
		}
		j.notify()
	}
	p.tidy(m.team)
}

// Holds returns the turn that a member has, as it is now.
func (m *member) Holds(turn chat.TurnID) (chat.TurnRef, error) {
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	j, err := m.job(turn)
	if err != nil {
		return chat.TurnRef{}, err
	}
	return j.turn.Ref(), nil
}

// Ending returns a function that waits until the end of a turn that a member has is in the log.
func (m *member) Ending(turn chat.TurnID) (func(context.Context) error, error) {
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	j, err := m.job(turn)
	if err == nil {
		return j.turn.box.ending, nil
	}
	if e := m.over(turn); e != nil {
		return e.wait, nil
	}
	return nil, err
}

// Finish ends a turn that a member has; cause is nil when it is done.
func (m *member) Finish(turn chat.TurnID, cause error) error {
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	j, err := m.job(turn)
	if err != nil {
		if m.over(turn) != nil {
			return nil // a repeated report
		}
		return err
	}
	select {
	case j.done <- cause:
	default: // it was finished before
	}
	if m.over(turn) == nil {
		m.remember(turnEnd{turn, j.turn.box.ending})
	}
	return nil
}

// job finds a turn that the member has. The caller holds Pool.mu.
func (m *member) job(turn chat.TurnID) (*job, error) {
	if c := m.pool.crews[m.team]; c != nil {
		for _, j := range c.jobs {
			if j.holder == m && j.turn.id == turn {
				return j, nil
			}
		}
	}
	return nil, chat.Errorf(chat.Conflict, "turn %s is not yours: it has ended or was given to another worker", turn)
}
