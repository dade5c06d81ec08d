package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/parley-hq/parley/internal/load"
)

// appends measures durable appends; every writer has its own session and up to inFlight requests that wait for an answer.
func appends(e *env, what string, writers, batch, inFlight int, checks ...check) (*result, error) {
	name := fmt.Sprintf("append-%d-%d-%d", writers, batch, inFlight)
	sides, err := compare(e, name, func(d *driver) bool { return d.append != nil && (inFlight == 1 || d.name != "Parley HTTP") }, func(x *instance) (func(int) (trial, error), error) {
		ids, err := x.sessions(name, writers)
		return func(i int) (t trial, err error) {
			t, err = x.measure(e, fmt.Sprintf("%s-%d", name, i), func() (load.Result, error) {
				return load.Append(e.ctx, x.p.target, x.append, ids, batch, inFlight, e.span)
			})
			if inFlight > 1 {
				t.latency = load.Histogram{} // a step is not the time of an answer
			}
			return t, err
		}, err
	})
	return &result{what: fmt.Sprintf(what, writers), sides: sides, checks: checks}, err
}

func appendOne(e *env) (results []*result, err error) {
	for _, c := range []struct {
		writers int
		must    float64
	}{{1, .8}, {16, .8}, {64, .7}, {256, .7}} {
		r, err := appends(e, "one durable event per request, writers that wait: %d", c.writers, 1, 1, check{rate, bound{c.must, "Redis"}, bound{1, "Redis"}})
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// appendMany has the ways in which agents and imports send much.
func appendMany(e *env) ([]*result, error) {
	bounds := check{rate, bound{40e3, ""}, bound{1, "bare"}}
	return collect(func() (*result, error) {
		return appends(e, "durable arrays of 32 events, %d writers that wait", 64, 32, 1, bounds)
	}, func() (*result, error) {
		return appends(e, "one durable event per request, %d writers with 16 requests under way each", 64, 1, 16, bounds)
	})
}

// appendX1 compares appends with x1 on, where every event is also published on NATS and archived, with appends with x1 off.
func appendX1(e *env) ([]*result, error) {
	return collect(func() (*result, error) { return compareX1(e, "one event per HTTP request", 1) }, func() (*result, error) { return compareX1(e, "arrays of 32 over HTTP", 32) })
}

func compareX1(e *env, what string, batch int) (*result, error) {
	const writers = 64
	r := &result{what: fmt.Sprintf("durable append, %s, %d writers", what, writers), checks: []check{{rate, bound{.7, "x1 off"}, bound{.85, "x1 off"}}}}
	for _, name := range []string{"x1 off", "x1 on"} {
		nats := "off"
		if name == "x1 on" {
			nats = "127.0.0.1:0"
		}
		p, err := startServer(e, filepath.Join(e.temp, fmt.Sprintf("%s-%d", name, batch)), "--nats", nats)
		if err != nil {
			return nil, err
		}
		defer p.stop()
		ids, err := load.Sessions(p.target, "x1", writers)
		if err != nil {
			return nil, err
		}
		r.sides = append(r.sides, &side{name: name, ours: name == "x1 on", run: func(i int) (trial, error) {
			t, err := p.measure(e, fmt.Sprintf("%s-%d-%d", name, batch, i), func() (load.Result, error) {
				return load.Append(e.ctx, p.target, load.NativeHTTP{}, ids, batch, 1, e.span)
			})
			// The archive may still be written, which would slow down the other server.
			return t, errors.Join(err, p.waitIdle(e))
		}})
	}
	return r, alternate(e, e.trials, r.sides...)
}
