package agentpool

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// A worker may miss the acknowledgement of its report that a turn is done: its connection breaks, or the server is
// killed, after the end was stored. When it reconnects it names the turn. The pool sends it the end, and acknowledges a
// repeated report.

// turnEnd is a turn whose end a worker reported or received. wait returns when the end is in the log.
type turnEnd struct {
	turn chat.TurnID
	wait func(ctx context.Context) error
}

// keptEnds is how many ended turns are kept for a worker, if it has not more slots.
const keptEnds = 64

// recovered is called when the turns of the last process are known. open returns those that have not ended in the log;
// it is called with the pool's lock held.
func (p *Pool) recovered(open func() map[chat.TurnID]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
	for _, g := range p.groups {
		for _, r := range g.workers {
			p.sendEnded(r)
		}
	}
}

// finished is called when the runner has finished with a turn: if it has ended, workers that named it when they
// connected and did not get it receive the end.
func (p *Pool) finished(turn chat.TurnID) {
	ended := p.nodes != nil && p.turns.ended(context.Background(), turn)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups {
		for _, r := range g.workers {
			switch {
			case ended:
				p.release(r, func(t chat.TurnID) bool { return t == turn })
			case slices.Contains(r.claims, turn):
				p.sendEnded(r)
			}
		}
	}
}

// sendEnded sends a worker the ends of the turns that it named. The caller holds mu.
func (p *Pool) sendEnded(r *registration) {
	if len(r.claims) == 0 || p.open == nil || p.nodes != nil {
		return // in a cluster checkClaims sends them
	}
	open := p.open()
	p.release(r, func(turn chat.TurnID) bool { return !open[turn] })
}

// release tells a worker the ends of those turns that it named and that have ended. The caller holds mu.
func (p *Pool) release(r *registration, ended func(turn chat.TurnID) bool) {
	for _, turn := range slices.Clone(r.claims) {
		if ended(turn) {
			p.end(r, turn)
		}
	}
}

// end tells a worker that a turn has ended. The caller holds mu.
func (p *Pool) end(r *registration, turn chat.TurnID) {
	r.removeClaim(turn)
	r.rememberEnd(turnEnd{turn, func(context.Context) error { return nil }})
	r.worker.Ended(turn)
	p.touch(r)
}

// rememberEnd keeps an ended turn. The caller holds Pool.mu.
func (r *registration) rememberEnd(e turnEnd) {
	r.ended = append(r.ended, e)
	if n := len(r.ended) - max(keptEnds, r.slots); n > 0 {
		r.ended = slices.Delete(r.ended, 0, n)
	}
}

// endOf returns an ended turn, or nil. The caller holds Pool.mu.
func (r *registration) endOf(turn chat.TurnID) *turnEnd {
	if i := slices.IndexFunc(r.ended, func(e turnEnd) bool { return e.turn == turn }); i >= 0 {
		return &r.ended[i]
	}
	return nil
}
