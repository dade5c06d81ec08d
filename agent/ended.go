package agent

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// A worker may lose the answer to its report that a turn is done: its connection
// breaks, or the server is killed, after the end was stored. It comes back and
// names the turn. It is told that the turn has ended, and a repeated report of the
// end is acknowledged.

// turnEnd is a turn whose end a worker reported or was told. wait returns when the
// end is in the log.
type turnEnd struct {
	turn chat.TurnID
	wait func(ctx context.Context) error
}

// keptEnds is how many ended turns are kept for a worker, if it has not more slots.
const keptEnds = 64

// recovered is called when the turns of the last process are known. open returns
// those that have not ended in the log; it is called with the pool's lock held.
func (p *Pool) recovered(open func() map[chat.TurnID]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
	for _, c := range p.crews {
		for _, m := range c.members {
			p.release(m)
		}
	}
}

// settle is called when the runner is done with a turn: workers that named it and
// did not get it again are told if it has ended.
func (p *Pool) settle(turn chat.TurnID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.crews {
		for _, m := range c.members {
			if slices.Contains(m.claims, turn) {
				p.release(m)
			}
		}
	}
}

// release tells a worker which of the turns that it named have ended. The caller
// holds mu.
func (p *Pool) release(m *member) {
	if len(m.claims) == 0 || p.open == nil {
		return
	}
	open := p.open()
	m.claims = slices.DeleteFunc(m.claims, func(turn chat.TurnID) bool {
		if open[turn] {
			return false
		}
		m.remember(turnEnd{turn, func(context.Context) error { return nil }})
		m.worker.Ended(turn)
		return true
	})
}

// remember keeps an ended turn. The caller holds Pool.mu.
func (m *member) remember(e turnEnd) {
	m.ended = append(m.ended, e)
	if n := len(m.ended) - max(keptEnds, m.slots); n > 0 {
		m.ended = slices.Delete(m.ended, 0, n)
	}
}

// over returns an ended turn, or nil. The caller holds Pool.mu.
func (m *member) over(turn chat.TurnID) *turnEnd {
	if i := slices.IndexFunc(m.ended, func(e turnEnd) bool { return e.turn == turn }); i >= 0 {
		return &m.ended[i]
	}
	return nil
}
