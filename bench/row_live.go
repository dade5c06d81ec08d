package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// shrink returns a smaller number for a short run.
func (e *env) shrink(n int) int {
	if e.short {
		return max(n/10, min(n, 10))
	}
	return n
}

// pieces sends 20 pieces a second to each of n sessions, which have one reader each.
func pieces(n int) func(e *env) ([]*result, error) {
	return func(e *env) ([]*result, error) {
		n := e.shrink(n)
		name := fmt.Sprintf("pieces-%d", n)
		sides, err := compare(e, name, func(d *driver) bool { return d.publish != nil && d.subscribe != nil }, func(x *instance) (func(int) (trial, error), error) {
			return func(i int) (trial, error) { return x.pieces(e, fmt.Sprintf("%s-%d", name, i), n) }, nil
		})
		r := &result{what: fmt.Sprintf("%d sessions x 20 pieces/s, one reader each", n), sides: sides, checks: []check{
			{cpu, bound{.9, "centrifuge"}, bound{1.1, "bare"}},
			{p99, bound{1, "centrifuge"}, bound{2, "bare"}},
		}}
		if n >= 2000 {
			r.checks = append(r.checks, check{p50, bound{1, "centrifuge"}, bound{2, "bare"}})
		}
		return []*result{r}, err
	}
}

// pieces is one trial with new sessions.
func (x *instance) pieces(e *env, name string, n int) (t trial, err error) {
	ids, err := x.sessions(name, n)
	if err != nil {
		return t, err
	}
	return x.withReaders(e, name, ids, func(r *load.Readers) (load.Result, error) {
		return load.Pieces(e.ctx, x.p.target, x.publish, r, ids, 20, e.span)
	})
}

// fanOut sends messages to readers of one session.
func fanOut(e *env, what string, readers int, flow load.Flow, checks ...check) (*result, error) {
	readers = e.shrink(readers)
	name := fmt.Sprintf("fan-out-%d-%d-%d-%d", readers, flow.Writers, flow.Batch, flow.Rate)
	sides, err := compare(e, name, func(d *driver) bool { return d.write != nil && d.subscribe != nil }, func(x *instance) (func(int) (trial, error), error) {
		return func(i int) (t trial, err error) {
			name := fmt.Sprintf("%s-%d", name, i)
			ids, err := x.sessions(name, 1)
			if err != nil {
				return t, err
			}
			return x.withReaders(e, name, slices.Repeat(ids, readers), func(r *load.Readers) (load.Result, error) {
				return load.FanOut(e.ctx, x.p.target, x.write, r, ids[0], flow, e.span)
			})
		}, nil
	})
	return &result{what: fmt.Sprintf(what, readers), sides: sides, checks: checks}, err
}

// collect collects results until one fails.
func collect(all ...func() (*result, error)) (results []*result, err error) {
	for _, f := range all {
		r, err := f()
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

func fanOut100(e *env) ([]*result, error) {
	return collect(func() (*result, error) {
		return fanOut(e, "fan-out to %d readers, one writer that waits", 100, load.Flow{Writers: 1, Batch: 1, Lag: 32},
			check{rate, bound{1, "centrifuge"}, bound{1.5, "centrifuge"}})
	})
}

// fanOutPaced sends 20 messages a second to readers of one session.
func fanOutPaced(readers int) func(e *env) ([]*result, error) {
	return func(e *env) ([]*result, error) {
		return collect(func() (*result, error) {
			return fanOut(e, "fan-out to %d readers, 20 messages/s", readers, load.Flow{Writers: 1, Batch: 1, Rate: 20}, check{p99, bound{1, "centrifuge"}, bound{1, "bare"}})
		})
	}
}

// seen measures the time from a durable append to its delivery without other load.
func seen(e *env) ([]*result, error) {
	return collect(func() (*result, error) {
		return fanOut(e, "publish to seen, %d reader, 100 messages/s", 1, load.Flow{Writers: 1, Batch: 1, Rate: 100}, check{p50, bound{1.1, ""}, bound{.7, ""}})
	})
}

// fanOutFull has the fan-outs in which Parley leads.
func fanOutFull(e *env) ([]*result, error) {
	p99 := check{p99, bound{1, "centrifuge"}, bound{1, "centrifuge"}}
	return collect(func() (*result, error) {
		return fanOut(e, "fan-out to %d readers, one writer that waits", 1000, load.Flow{Writers: 1, Batch: 1, Lag: 32}, check{rate, bound{1.2, "centrifuge"}, bound{1.5, "centrifuge"}}, p99)
	}, func() (*result, error) {
		return fanOut(e, "fan-out to %d readers, bursts of 32", 1000, load.Flow{Writers: 1, Batch: 32, Lag: 256}, check{rate, bound{2.5, "centrifuge"}, bound{5, "centrifuge"}}, p99)
	}, func() (*result, error) {
		return fanOut(e, "fan-out to %d readers, 8 writers that wait", 100, load.Flow{Writers: 8, Batch: 1, Lag: 32}, check{rate, bound{1, "centrifuge"}, bound{1.5, "centrifuge"}}, p99)
	})
}

// comeBack has readers that connect at the same time and miss the same 500 events.
func comeBack(n int) func(e *env) ([]*result, error) {
	const missed = 500
	return func(e *env) ([]*result, error) {
		n := e.shrink(n)
		name := fmt.Sprintf("%scome-back-%d", kept, n)
		sides, err := compare(e, name, func(d *driver) bool { return d.resume != nil }, func(x *instance) (func(int) (trial, error), error) {
			ids, err := x.sessions(name, 1)
			if err != nil {
				return nil, err
			}
			if err := load.Fill(x.p.target, x.write, ids[0], missed); err != nil {
				return nil, err
			}
			by, err := x.resume.Resume(x.p.target, ids[0])
			return func(i int) (t trial, err error) {
				_, err = x.measure(e, fmt.Sprintf("%s-%d", name, i), func() (load.Result, error) {
					t, err = x.comeBack(by, ids[0], n, missed)
					return load.Result{}, err
				})
				return t, errors.Join(err, x.p.waitIdle(e))
			}, err
		})
		return []*result{{
			what: fmt.Sprintf("%d readers x %d missed events come back at once", n, missed), sides: sides,
			more: func(s *side) string {
				return fmt.Sprintf("%s, peak %s", took.show(s.value(took)), memory.show(s.value(memory)))
			},
			checks: []check{{took, bound{1, "centrifuge"}, bound{1, "bare"}}, {memory, bound{200, ""}, bound{80, ""}}},
		}}, err
	}
}

// comeBack opens all readers from a few goroutines and waits for the last event.
func (x *instance) comeBack(by load.Subscriber, id string, n, missed int) (t trial, err error) {
	const openers = 4
	if err := x.p.resetPeak(); err != nil {
		return t, err
	}
	sets, errs := make([]*load.Readers, openers), make([]error, openers)
	for i := range sets {
		if sets[i], err = load.NewReaders(); err != nil {
			return t, err
		}
		defer sets[i].Close()
	}
	used, begun := x.p.cpu(), time.Now()
	var wg sync.WaitGroup
	for i, set := range sets {
		wg.Go(func() {
			part := (n + i) / openers
			if errs[i] = set.Watch(x.p.target, by, slices.Repeat([]string{id}, part)); errs[i] == nil {
				errs[i] = set.Wait(int64(part * missed))
			}
		})
	}
	wg.Wait()
	t.took = time.Since(begun)
	t.rate = float64(n) / t.took.Seconds()
	t.cost = float64((x.p.cpu() - used).Microseconds()) / float64(n)
	t.memory, err = x.p.memory("VmHWM")
	return t, errors.Join(append(errs, err)...)
}
