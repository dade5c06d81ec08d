package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

const appenders = 64

// way is one way to append over the network.
type way struct {
	name, what string
	need, want float64 // want 0 means more than the peer does
	run        func(p *process, sessions []string) (load.Rate, error)
}

// appends measures ways to append, in turns with as many writers of bare Pebble
// in this process, which set one value at a time.
func appends(e *env, ways []way) (lines []line, err error) {
	for _, w := range ways {
		l, err := w.measure(e)
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (w way) measure(e *env) (l line, err error) {
	p, err := startParley(e, filepath.Join(e.temp, w.name))
	if err != nil {
		return l, err
	}
	defer p.stop()
	sessions, err := load.Sessions(p.target, w.name, appenders)
	if err != nil {
		return l, err
	}
	db, err := openBare(filepath.Join(e.temp, w.name+"-bare"))
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	peer := &contender{steps: db.writers(appenders)}
	var rates, costs []float64
	var all load.Hist
	for i := range e.rounds {
		err := p.profile(e, fmt.Sprintf("%s-%d", w.name, i), func() error {
			before := p.cpu()
			r, err := w.run(p, sessions)
			rates = append(rates, r.PerSecond)
			costs = append(costs, float64((p.cpu()-before).Microseconds())/float64(max(r.Messages, 1)))
			all.Merge(&r.Latency)
			return err
		})
		if err = errors.Join(err, peer.run(e.span/2)); err != nil {
			return l, err
		}
	}
	r, bare := median(rates), median(peer.rates)
	l = line{
		what: w.what, ours: perSecond(r), peer: perSecond(bare) + ", bare Pebble", ratio: r / bare,
		value: r, floor: true, need: w.need, want: w.want, must: perSecond(w.need), aim: perSecond(w.want),
	}
	if w.want == 0 {
		l.want, l.aim = bare, "over the peer"
	}
	if p50 := all.Quantile(.5); p50 > 50*time.Microsecond { // with several under way a step says nothing of an answer
		l.ours += fmt.Sprintf(", p50 %s, p99 %s", ms(p50), ms(all.Quantile(.99)))
	}
	l.ours += fmt.Sprintf(", %.0f µs cpu each", median(costs))
	return l, nil
}

func appendHTTP(e *env) ([]line, error) {
	return appends(e, []way{{"http", "durable append, one event per HTTP request, 64 writers", 13e3, 20e3, func(p *process, s []string) (load.Rate, error) {
		return load.AppendHTTP(e.ctx, p.target, s, 1, e.span)
	}}})
}

func appendMany(e *env) ([]line, error) {
	return appends(e, []way{
		{"arrays", "durable append, arrays of 32 over HTTP, 64 writers", 40e3, 0, func(p *process, s []string) (load.Rate, error) {
			return load.AppendHTTP(e.ctx, p.target, s, 32, e.span)
		}},
		{"ws-arrays", "durable append, arrays of 32 over WebSocket, 64 writers", 40e3, 0, func(p *process, s []string) (load.Rate, error) {
			return load.AppendWS(e.ctx, p.target, load.Native{}, s, 32, 1, e.span)
		}},
		{"ws-window", "durable append, one event per WebSocket frame, 64 writers with 16 frames under way each", 40e3, 0, func(p *process, s []string) (load.Rate, error) {
			return load.AppendWS(e.ctx, p.target, load.Native{}, s, 1, 16, e.span)
		}},
		{"ws", "durable append, one event per WebSocket frame, 64 writers that wait for each answer", 40e3, 0, func(p *process, s []string) (load.Rate, error) {
			return load.AppendWS(e.ctx, p.target, load.Native{}, s, 1, 1, e.span)
		}},
	})
}
