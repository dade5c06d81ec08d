package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// side is one of the servers that are compared, with its readers in place.
type side struct {
	name   string
	p      *process
	speech load.Speech
	crowd  *load.Crowd
	id     string

	rates []float64
	p99s  []time.Duration
	costs []float64 // processor time of the server for one delivery, in µs
}

// sides puts n readers of one session on Parley over WebSocket, on Parley over
// SSE, and on the peer.
func sides(pr pair, name string, n int) (all []*side, err error) {
	for _, s := range []*side{
		{name: "ws", p: pr.ours, speech: load.Native{}},
		{name: "sse", p: pr.ours, speech: load.Native{}},
		{name: "peer", p: pr.peer, speech: centrifugeJSON{}},
	} {
		s.id = name + "-" + s.name
		if s.crowd, err = load.NewCrowd(); err != nil {
			return all, err
		}
		all = append(all, s)
		if s.p == pr.ours {
			made, err := load.Sessions(s.p.target, s.id, 1)
			if err != nil {
				return all, err
			}
			s.id = made[0]
		}
		ids := slices.Repeat([]string{s.id}, n)
		if s.name == "sse" {
			err = s.crowd.WatchSSE(s.p.target, ids, "")
		} else {
			err = s.crowd.WatchWS(s.p.target, s.speech, ids)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (s *side) result() string {
	return fmt.Sprintf("%s, p99 %s, %.1f µs cpu each", perSecond(median(s.rates)), ms(median(s.p99s)), median(s.costs))
}

func closeAll(all []*side) {
	for _, s := range all {
		s.crowd.Close()
	}
}

// fanOut compares how fast messages reach many readers.
func fanOut(e *env, name, what string, readers, writers, batch int, need, want float64) (lines []line, err error) {
	pr, err := startPair(e, name)
	if err != nil {
		return nil, err
	}
	defer pr.stop()
	all, err := sides(pr, name, readers)
	defer func() { closeAll(all) }()
	if err != nil {
		return nil, err
	}
	for i := range e.rounds {
		for _, s := range all {
			run := func() error {
				before := s.p.cpu()
				r, err := load.FanOut(e.ctx, s.p.target, s.speech, s.crowd, s.id, writers, batch, 8*max(batch, 4), e.span)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				s.rates, s.p99s = append(s.rates, r.PerSecond), append(s.p99s, r.Latency.Quantile(.99))
				s.costs = append(s.costs, float64((s.p.cpu()-before).Microseconds())/float64(r.Deliveries))
				return nil
			}
			if s.name == "peer" {
				err = run()
			} else {
				err = s.p.profile(e, fmt.Sprintf("%s-%s-%d", name, s.name, i), run)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	peer := all[2]
	for _, s := range all[:2] {
		flaw := ""
		if median(s.p99s) > median(peer.p99s) {
			flaw = "p99 worse"
		}
		ratio := median(s.rates) / median(peer.rates)
		lines = append(lines, line{
			what: fmt.Sprintf("%s, %s", what, map[string]string{"ws": "WebSocket", "sse": "SSE"}[s.name]),
			ours: s.result(), peer: peer.result(),
			ratio: ratio, value: ratio, floor: true, need: need, want: want,
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

// previews: many sessions being written at once, one reader each.
func previews(e *env) (lines []line, err error) {
	for i, n := range []int{500, 1000, 2000} {
		l, err := typing(e, n, []float64{10, 40, 320}[i], []float64{3, 20, 150}[i])
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func typing(e *env, n int, need, want float64) (l line, err error) {
	name := fmt.Sprintf("typing-%d", n)
	pr, err := startPair(e, name)
	if err != nil {
		return l, err
	}
	defer pr.stop()
	var ours, peers, mids []time.Duration
	var costs, peerCosts []float64
	for i := range e.rounds {
		ids, err := load.Sessions(pr.ours.target, fmt.Sprintf("%s-%d", name, i), n)
		if err != nil {
			return l, err
		}
		err = pr.ours.profile(e, fmt.Sprintf("%s-%d", name, i), func() error {
			h, cost, err := typingOn(e, pr.ours, load.Native{}, ids, nil)
			ours, mids, costs = append(ours, h.Quantile(.99)), append(mids, h.Quantile(.5)), append(costs, cost)
			return err
		})
		if err != nil {
			return l, err
		}
		h, cost, err := typingOn(e, pr.peer, centrifugeJSON{}, ids, nil)
		if err != nil {
			return l, fmt.Errorf("peer: %w", err)
		}
		peers, peerCosts = append(peers, h.Quantile(.99)), append(peerCosts, cost)
	}
	p99 := median(ours)
	return line{
		what: fmt.Sprintf("%d sessions x 20 previews/s, one reader each, p99", n),
		ours: fmt.Sprintf("%s (p50 %s, %.0f µs cpu each)", ms(p99), ms(median(mids)), median(costs)),
		peer: fmt.Sprintf("%s (%.0f µs cpu each)", ms(median(peers)), median(peerCosts)), ratio: float64(median(peers)) / float64(p99),
		value: float64(p99) / float64(time.Millisecond), need: need, want: want, must: fmt.Sprintf("%.0f ms", need), aim: fmt.Sprintf("%.0f ms", want),
	}, nil
}

// runs: many Vertesia runs being written at once, one reader each. Its chunks are
// at least 16 ms apart, so that is the least that a busy run's latency can be.
func runs(e *env) (lines []line, err error) {
	const name, n = "vertesia", 2000
	pr, err := startPair(e, name)
	if err != nil {
		return nil, err
	}
	defer pr.stop()
	var p99s, mids, peers []time.Duration
	for i := range e.rounds {
		ids, err := load.Sessions(pr.ours.target, fmt.Sprintf("%s-%d", name, i), n)
		if err != nil {
			return nil, err
		}
		h, _, err := typingOn(e, pr.ours, load.Native{}, ids, func(c *load.Crowd) error {
			return c.WatchPaths(pr.ours.target, ids, func(id string) string { return "/api/v1/agents/" + id + "/stream?skipHistory=true" })
		})
		if err != nil {
			return nil, err
		}
		p99s, mids = append(p99s, h.Quantile(.99)), append(mids, h.Quantile(.5))
		if h, _, err = typingOn(e, pr.peer, centrifugeJSON{}, ids, nil); err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
		peers = append(peers, h.Quantile(.99))
	}
	p99, peer := median(p99s), median(peers)
	return []line{{
		what: fmt.Sprintf("%d Vertesia runs x 20 pieces/s, one SSE reader each, p99", n), ours: fmt.Sprintf("%s (p50 %s)", ms(p99), ms(median(mids))),
		peer: ms(peer), ratio: float64(peer) / float64(p99),
		value: float64(p99) / float64(time.Millisecond), need: 320, want: 150, must: "320 ms", aim: "150 ms",
	}}, nil
}

// typingOn returns the latencies and what one preview costs the server, in µs.
// Readers come over WebSocket when watch is nil.
func typingOn(e *env, p *process, sp load.Speech, ids []string, watch func(*load.Crowd) error) (h load.Hist, cost float64, err error) {
	crowd, err := load.NewCrowd()
	if err != nil {
		return h, 0, err
	}
	defer crowd.Close()
	if watch == nil {
		err = crowd.WatchWS(p.target, sp, ids)
	} else {
		err = watch(crowd)
	}
	if err != nil {
		return h, 0, err
	}
	before := p.cpu()
	r, err := load.Typing(e.ctx, p.target, sp, crowd, ids, 20, e.span)
	return r.Latency, float64((p.cpu() - before).Microseconds()) / float64(max(r.Deliveries, 1)), err
}

// quiet: nothing else happens.
func quiet(e *env) (lines []line, err error) {
	pr, err := startPair(e, "quiet")
	if err != nil {
		return nil, err
	}
	defer pr.stop()
	all, err := sides(pr, "quiet", 1)
	defer func() { closeAll(all) }()
	if err != nil {
		return nil, err
	}
	hists := make([]load.Hist, len(all))
	for range e.rounds {
		for i, s := range all {
			h, err := load.Quiet(e.ctx, s.p.target, s.speech, s.crowd, s.id, int(e.span/(20*time.Millisecond)), 5*time.Millisecond)
			if err != nil {
				return nil, err
			}
			hists[i].Merge(&h)
		}
	}
	peer := hists[2].Quantile(.5)
	for i, s := range all[:2] {
		p50 := hists[i].Quantile(.5)
		lines = append(lines, line{
			what: fmt.Sprintf("durable publish to seen, quiet, p50, %s", map[string]string{"ws": "WebSocket", "sse": "SSE"}[s.name]),
			ours: fmt.Sprintf("%s (p99 %s)", ms(p50), ms(hists[i].Quantile(.99))), peer: ms(peer) + ", not durable", ratio: float64(peer) / float64(p50),
			value: float64(p50) / float64(time.Millisecond), need: 1.1, want: .7, must: "1.1 ms", aim: "0.7 ms",
		})
	}
	return lines, nil
}
