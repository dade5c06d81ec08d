package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

const appenders = 64

// appends measures one way of appending over the network.
func appends(e *env, name, what string, need, want float64, run func(p *process, sessions []string) (load.Rate, error)) (line, error) {
	p, err := startParley(e, filepath.Join(e.temp, name))
	if err != nil {
		return line{}, err
	}
	defer p.stop()
	sessions, err := load.Sessions(p.target, name, appenders)
	if err != nil {
		return line{}, err
	}
	var rates, costs []float64
	var all load.Hist
	for i := range e.rounds {
		err := p.profile(e, fmt.Sprintf("%s-%d", name, i), func() error {
			before := p.cpu()
			r, err := run(p, sessions)
			rates = append(rates, r.PerSecond)
			costs = append(costs, float64((p.cpu()-before).Microseconds())/float64(max(r.Messages, 1)))
			all.Merge(&r.Latency)
			return err
		})
		if err != nil {
			return line{}, err
		}
	}
	r := median(rates)
	l := line{
		what: what, ours: perSecond(r),
		value: r, floor: true, need: need, want: want,
	}
	if p50 := all.Quantile(.5); p50 > 50*time.Microsecond { // with several under way a step says nothing of an answer
		l.ours += fmt.Sprintf(", p50 %s, p99 %s", ms(p50), ms(all.Quantile(.99)))
	}
	l.ours += fmt.Sprintf(", %.0f µs cpu each", median(costs))
	if need > 0 {
		l.must, l.aim = perSecond(need), perSecond(want)
	}
	return l, nil
}

func appendHTTP(e *env) ([]line, error) {
	l, err := appends(e, "http", "durable append, one event per HTTP request, 64 writers", 13e3, 20e3, func(p *process, s []string) (load.Rate, error) {
		return load.AppendHTTP(e.ctx, p.target, s, 1, e.span)
	})
	if err != nil {
		return nil, err
	}
	return []line{l}, nil
}

// appendMany: the aim is more than Pebble's rate of single events with as many
// writers, as DESIGN section 10 gives it.
func appendMany(e *env) (lines []line, err error) {
	for _, way := range []struct {
		name, what string
		run        func(p *process, s []string) (load.Rate, error)
	}{
		{"arrays", "durable append, arrays of 32 over HTTP, 64 writers", func(p *process, s []string) (load.Rate, error) {
			return load.AppendHTTP(e.ctx, p.target, s, 32, e.span)
		}},
		{"ws-arrays", "durable append, arrays of 32 over WebSocket, 64 writers", func(p *process, s []string) (load.Rate, error) {
			return load.AppendWS(e.ctx, p.target, load.Native{}, s, 32, 1, e.span)
		}},
		{"ws-window", "durable append, one event per WebSocket frame, 64 writers with 16 frames under way each", func(p *process, s []string) (load.Rate, error) {
			return load.AppendWS(e.ctx, p.target, load.Native{}, s, 1, 16, e.span)
		}},
		{"ws", "durable append, one event per WebSocket frame, 64 writers that wait for each answer", func(p *process, s []string) (load.Rate, error) {
			return load.AppendWS(e.ctx, p.target, load.Native{}, s, 1, 1, e.span)
		}},
	} {
		l, err := appends(e, way.name, way.what, 40e3, 65e3, way.run)
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}
