package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// appenders is the number of writers; each has its own session.
const appenders = 64

// way is one way to append over the network.
type way struct {
	name, what string
	need, want float64 // want 0 means more than the peer
	run        appendFunc
}

type appendFunc func(t load.Target, sessions []string) (load.Result, error)

func overHTTP(e *env, batch int) appendFunc {
	return func(t load.Target, s []string) (load.Result, error) {
		return load.AppendHTTP(e.ctx, t, s, batch, e.span)
	}
}

func overWS(e *env, batch, inFlight int) appendFunc {
	return func(t load.Target, s []string) (load.Result, error) {
		return load.AppendWS(e.ctx, t, load.Native{}, s, batch, inFlight, e.span)
	}
}

// appendSide is a server with sessions to append to.
func appendSide(e *env, p *process, name string, run appendFunc) (*side, error) {
	sessions, err := p.sessions(name, appenders)
	return &side{name: name, run: func(i int) (trial, error) {
		return p.measure(e, fmt.Sprintf("%s-%d", name, i), func() (load.Result, error) { return run(p.target, sessions) })
	}}, err
}

// appends measures ways to append, in turns with as many writers of bare Pebble in this process, which set one value at a
// time.
func appends(e *env, ways ...way) (lines []line, err error) {
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
	ours, err := appendSide(e, p, w.name, w.run)
	if err != nil {
		return l, err
	}
	db, err := openBare(filepath.Join(e.temp, w.name+"-bare"))
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	peer := inProcess("bare Pebble", db.writers(appenders), e.span/2)
	if err := alternate(e, e.trials, ours, peer); err != nil {
		return l, err
	}
	r, bare := ours.rate(), peer.rate()
	l = line{
		what: w.what, ours: perSecond(r), peer: perSecond(bare) + ", bare Pebble", ratio: r / bare,
		value: r, floor: true, need: w.need, want: w.want, must: perSecond(w.need), aim: perSecond(w.want),
	}
	if w.want == 0 {
		l.want, l.aim = bare, "over the peer"
	}
	all := ours.latency()
	if p50 := all.Quantile(.5); p50 > 50*time.Microsecond { // with several requests under way a step is not the time of an answer
		l.ours += fmt.Sprintf(", p50 %s, p99 %s", ms(p50), ms(all.Quantile(.99)))
	}
	l.ours += fmt.Sprintf(", %.0f µs cpu each", ours.cost())
	return l, nil
}

func appendHTTP(e *env) ([]line, error) {
	return appends(e, way{"http", "durable append, one event per HTTP request, 64 writers", 13e3, 20e3, overHTTP(e, 1)})
}

func appendMany(e *env) ([]line, error) {
	return appends(e,
		way{"arrays", "durable append, arrays of 32 over HTTP, 64 writers", 40e3, 0, overHTTP(e, 32)},
		way{"ws-arrays", "durable append, arrays of 32 over WebSocket, 64 writers", 40e3, 0, overWS(e, 32, 1)},
		way{"ws-in-flight", "durable append, one event per WebSocket frame, 64 writers with 16 frames under way each", 40e3, 0, overWS(e, 1, 16)},
		way{"ws", "durable append, one event per WebSocket frame, 64 writers that wait for each answer", 40e3, 0, overWS(e, 1, 1)},
	)
}

// appendX1 compares appends with x1 on, where every event is also published on NATS and archived, with appends with x1 off.
func appendX1(e *env) (lines []line, err error) {
	for _, w := range []way{
		{name: "x1-http", what: "durable append with x1 on, one event per HTTP request, 64 writers", run: overHTTP(e, 1)},
		{name: "x1-arrays", what: "durable append with x1 on, arrays of 32 over HTTP, 64 writers", run: overHTTP(e, 32)},
	} {
		l, err := w.compareX1(e)
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (w way) compareX1(e *env) (line, error) {
	var sides []*side
	for _, nats := range []string{"off", "127.0.0.1:0"} {
		name := fmt.Sprintf("%s-%d", w.name, len(sides))
		p, err := startServer(e, filepath.Join(e.temp, name), "--nats", nats)
		if err != nil {
			return line{}, err
		}
		defer p.stop()
		s, err := appendSide(e, p, name, w.run)
		if err != nil {
			return line{}, err
		}
		run := s.run
		s.run = func(i int) (trial, error) {
			r, err := run(i)
			// The archive may still be written, which would slow down the other server.
			return r, errors.Join(err, p.waitIdle(e))
		}
		sides = append(sides, s)
	}
	if err := alternate(e, e.trials, sides...); err != nil {
		return line{}, err
	}
	off, on := sides[0].rate(), sides[1].rate()
	return line{
		what: w.what, ours: perSecond(on), peer: perSecond(off) + " with x1 off", ratio: on / off,
		value: on / off, floor: true, need: .7, want: .85, must: "0.7 of off", aim: "0.85 of off",
	}, nil
}
