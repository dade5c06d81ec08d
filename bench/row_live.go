package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// audience is n readers of one session of a server.
type audience struct {
	p       *process
	readers *load.Readers
	session string
}

// live compares Parley over WebSocket, Parley over SSE and the peer. Each has n readers of one session, and run loads it.
func live(e *env, name string, n int, run func(a *audience) (load.Result, error)) (ours []*side, peer *side, err error) {
	pr, err := startPair(e, name)
	if err != nil {
		return nil, nil, err
	}
	defer pr.stop()
	var all []*side
	for _, by := range []string{"WebSocket", "SSE", "peer"} {
		a := &audience{p: pr.ours}
		if by == "peer" {
			a.p = pr.peer
		}
		ids, err := a.p.sessions(name+"-"+by, 1)
		if err != nil {
			return nil, nil, err
		}
		a.session, ids = ids[0], slices.Repeat(ids, n)
		if a.readers, err = load.NewReaders(); err != nil {
			return nil, nil, err
		}
		defer a.readers.Close()
		if by == "SSE" {
			err = a.readers.WatchSSE(a.p.target, ids, nil)
		} else {
			err = a.readers.WatchWS(a.p.target, a.p.protocol(), ids)
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, &side{name: by, run: func(i int) (trial, error) {
			return a.p.measure(e, fmt.Sprintf("%s-%s-%d", name, by, i), func() (load.Result, error) { return run(a) })
		}})
	}
	return all[:2], all[2], alternate(e, e.trials, all...)
}

// fanOut compares how fast messages reach many readers.
func fanOut(e *env, name, what string, readers, writers, batch int, need, want float64) (lines []line, err error) {
	ours, peer, err := live(e, name, readers, func(a *audience) (load.Result, error) {
		return load.FanOut(e.ctx, a.p.target, a.p.protocol(), a.readers, a.session, writers, batch, 8*max(batch, 4), e.span)
	})
	if err != nil {
		return nil, err
	}
	show := func(s *side) string {
		return fmt.Sprintf("%s, p99 %s, %.1f µs cpu each", perSecond(s.rate()), ms(s.quantile(.99)), s.cost())
	}
	for _, s := range ours {
		flaw := ""
		if s.quantile(.99) > peer.quantile(.99) {
			flaw = "p99 worse"
		}
		ratio := s.rate() / peer.rate()
		lines = append(lines, line{
			what: what + ", " + s.name, ours: show(s), peer: show(peer), ratio: ratio, value: ratio, floor: true, need: need, want: want,
			must: fmt.Sprintf("%.1f x, p99 no worse", need), aim: fmt.Sprintf("%.1f x", want), flaw: flaw,
		})
	}
	return lines, nil
}

func fanOut1000(e *env) ([]line, error) {
	one, err := fanOut(e, "fan", "fan-out 1 session to 1000 readers, full speed", 1000, 1, 1, 1.2, 1.5)
	if err != nil {
		return one, err
	}
	bursts, err := fanOut(e, "burst", "the same in bursts of 32", 1000, 1, 32, 2.5, 5)
	return append(one, bursts...), err
}

func fanOut100(e *env) ([]line, error) {
	return fanOut(e, "eight", "fan-out to 100 readers, 8 writers on one session", 100, 8, 1, 1, 1.5)
}

// previews sends previews to many sessions at the same time, with one reader each.
func previews(e *env) (lines []line, err error) {
	for _, c := range []struct {
		n          int
		need, want float64
	}{{500, 10, 3}, {1000, 40, 20}, {2000, 320, 150}} {
		l, err := previewsTo(e, fmt.Sprintf("previews-%d", c.n), c.n, nil, c.need, c.want)
		if err != nil {
			return lines, err
		}
		l.what = fmt.Sprintf("%d sessions x 20 previews/s, one reader each, p99", c.n)
		lines = append(lines, l)
	}
	return lines, nil
}

// vertesiaRuns is previews with readers of Vertesia's stream. It sends a chunk every 16 ms at most, which is thus the least latency
// of a busy run.
func vertesiaRuns(e *env) ([]line, error) {
	const n = 2000
	l, err := previewsTo(e, "vertesia", n, func(id string) string { return "/api/v1/agents/" + id + "/stream?skipHistory=true" }, 320, 150)
	l.what = fmt.Sprintf("%d Vertesia runs x 20 pieces/s, one SSE reader each, p99", n)
	return []line{l}, err
}

// previewsTo compares previews to n sessions with the peer. Parley's readers use WebSockets, or SSE when path is given.
func previewsTo(e *env, name string, n int, path func(id string) string, need, want float64) (line, error) {
	pr, err := startPair(e, name)
	if err != nil {
		return line{}, err
	}
	defer pr.stop()
	var sides []*side
	for _, p := range []*process{pr.ours, pr.peer} {
		sides = append(sides, &side{name: name, run: func(i int) (r trial, err error) {
			ids, err := p.sessions(fmt.Sprintf("%s-%d", name, i), n)
			if err != nil {
				return r, err
			}
			readers, err := load.NewReaders()
			if err != nil {
				return r, err
			}
			defer readers.Close()
			if path != nil && p.parley {
				err = readers.WatchSSE(p.target, ids, path)
			} else {
				err = readers.WatchWS(p.target, p.protocol(), ids)
			}
			if err != nil {
				return r, err
			}
			return p.measure(e, fmt.Sprintf("%s-%d", name, i), func() (load.Result, error) {
				return load.Previews(e.ctx, p.target, p.protocol(), readers, ids, 20, e.span)
			})
		}})
	}
	if err := alternate(e, e.trials, sides...); err != nil {
		return line{}, err
	}
	ours, peer := sides[0], sides[1]
	p99 := ours.quantile(.99)
	return line{
		ours: fmt.Sprintf("%s (p50 %s, %.0f µs cpu each)", ms(p99), ms(ours.quantile(.5)), ours.cost()),
		peer: fmt.Sprintf("%s (%.0f µs cpu each)", ms(peer.quantile(.99)), peer.cost()), ratio: float64(peer.quantile(.99)) / float64(p99),
		value: inMS(p99), need: need, want: want, must: fmt.Sprintf("%.0f ms", need), aim: fmt.Sprintf("%.0f ms", want),
	}, nil
}

// quiet measures single messages while nothing else happens.
func quiet(e *env) (lines []line, err error) {
	ours, peer, err := live(e, "quiet", 1, func(a *audience) (load.Result, error) {
		return load.Quiet(e.ctx, a.p.target, a.p.protocol(), a.readers, a.session, int(e.span/(20*time.Millisecond)), 5*time.Millisecond)
	})
	if err != nil {
		return nil, err
	}
	peerAll := peer.latency()
	for _, s := range ours {
		all := s.latency()
		p50 := all.Quantile(.5)
		lines = append(lines, line{
			what: "durable publish to seen, quiet, p50, " + s.name, ours: fmt.Sprintf("%s (p99 %s)", ms(p50), ms(all.Quantile(.99))),
			peer: ms(peerAll.Quantile(.5)) + ", not durable", ratio: float64(peerAll.Quantile(.5)) / float64(p50),
			value: inMS(p50), need: 1.1, want: .7, must: "1.1 ms", aim: "0.7 ms",
		})
	}
	return lines, nil
}
