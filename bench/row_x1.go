package main

import (
	"fmt"
	"path/filepath"

	"github.com/parley-hq/parley/internal/load"
)

// appendX1: what it costs that every event also goes out on NATS, live and to the
// archive. Both servers run at once and take turns.
func appendX1(e *env) (lines []line, err error) {
	on := *e
	on.nats = "127.0.0.1:0"
	for _, way := range []struct {
		name, what string
		run        func(p *process, s []string) (load.Rate, error)
	}{
		{"x1-http", "durable append with x1 on, one event per HTTP request, 64 writers", func(p *process, s []string) (load.Rate, error) {
			return load.AppendHTTP(e.ctx, p.target, s, 1, e.span)
		}},
		{"x1-arrays", "durable append with x1 on, arrays of 32 over HTTP, 64 writers", func(p *process, s []string) (load.Rate, error) {
			return load.AppendHTTP(e.ctx, p.target, s, 32, e.span)
		}},
	} {
		l, err := compareX1(e, &on, way.name, way.run)
		if err != nil {
			return lines, err
		}
		l.what = way.what
		lines = append(lines, l)
	}
	return lines, nil
}

func compareX1(off, on *env, name string, run func(p *process, s []string) (load.Rate, error)) (line, error) {
	var rates [2][]float64
	var servers [2]*process
	var sessions [2][]string
	for i, e := range []*env{off, on} {
		p, err := startParley(e, filepath.Join(e.temp, fmt.Sprintf("%s-%d", name, i)))
		if err != nil {
			return line{}, err
		}
		defer p.stop()
		servers[i] = p
		if sessions[i], err = load.Sessions(p.target, name, appenders); err != nil {
			return line{}, err
		}
	}
	for round := range off.rounds {
		for i, p := range servers {
			var r load.Rate
			err := p.profile(off, fmt.Sprintf("%s-%s-%d", name, [...]string{"off", "on"}[i], round), func() (err error) {
				r, err = run(p, sessions[i])
				return err
			})
			if err != nil {
				return line{}, err
			}
			rates[i] = append(rates[i], r.PerSecond)
			// What is still on its way to the archive must not slow the other one down.
			if err := p.rest(off); err != nil {
				return line{}, err
			}
		}
	}
	without, with := median(rates[0]), median(rates[1])
	return line{
		ours: perSecond(with), peer: perSecond(without) + " with x1 off", ratio: with / without,
		value: with / without, floor: true, need: .7, want: .85, must: "0.7 of off", aim: "0.85 of off",
	}, nil
}
