package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// appendInCluster measures durable appends by clients of the owner, and through another node. The
// peer is a stream of JetStream with three replicas and nothing else.
func appendInCluster(e *env) (results []*result, err error) {
	raw, err := startReplicas(e, filepath.Join(e.temp, "cluster-raw"))
	if err != nil {
		return nil, err
	}
	defer raw.stop()
	c, err := startCluster(e, filepath.Join(e.temp, "cluster-append"))
	if err != nil {
		return results, err
	}
	defer c.stop()
	for _, writers := range []int{1, 64, 256} {
		r, err := appendAt(e, c, raw, writers, "Parley WS at the owner", load.Native{})
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	r, err := appendAt(e, c, raw, 64, "Parley HTTP at the owner", load.NativeHTTP{}, check{rate, bound{5e3, ""}, bound{9e3, ""}})
	if err != nil {
		return results, err
	}
	results = append(results, r)
	r, err = appendElsewhere(e, c)
	return append(results, r), err
}

func appendAt(e *env, c, raw *clusterProcesses, writers int, name string, by load.Appender, checks ...check) (*result, error) {
	ids, err := c.sessions(fmt.Sprintf("append-%d-%s", writers, name[7:9]), writers)
	if err != nil {
		return nil, err
	}
	r := &result{what: fmt.Sprintf("cluster: one durable event per request, writers that wait: %d", writers), checks: checks, sides: []*side{
		{name: name, ours: true, run: func(i int) (trial, error) {
			t, err := c.measure(e, fmt.Sprintf("cluster-append-%d-%d", writers, i), func() (load.Result, error) { return load.Append(e.ctx, c.owner.target, by, ids, 1, 1, e.span) })
			return t, errors.Join(err, c.waitIdle())
		}},
		rawSide(e, raw, writers),
	}}
	return r, alternate(e, e.trials, r.sides...)
}

// rawSide is a stream of JetStream with three replicas.
func rawSide(e *env, raw *clusterProcesses, writers int) *side {
	subjects := make([]string, writers)
	for i := range subjects {
		subjects[i] = fmt.Sprint("s", i)
	}
	return &side{name: "JetStream R3", run: func(int) (trial, error) {
		t, err := raw.measure(e, "", func() (load.Result, error) {
			return load.Append(e.ctx, raw.owner.target, jetStream{}, subjects, 1, 1, e.span)
		})
		return t, errors.Join(err, raw.waitIdle())
	}}
}

// extra is how much longer something takes at another node: the difference of the medians of one turn.
var extra = metric{"extra p50", func(t *trial) float64 { return t.took.Seconds() }, seconds, false}

// atBoth measures at the owner and at another node.
func atBoth(measure func(p *process) (trial, error), c *clusterProcesses) (trial, error) {
	here, err := measure(c.owner)
	if err != nil {
		return here, err
	}
	t, err := measure(c.other)
	t.took = t.latency.Quantile(.5) - here.latency.Quantile(.5)
	return t, err
}

func showExtra(s *side) string {
	return fmt.Sprintf("p50 %s more than at the owner", seconds(s.value(extra)))
}

// appendElsewhere measures how much longer one writer waits at another node.
func appendElsewhere(e *env, c *clusterProcesses) (*result, error) {
	ids, err := c.sessions("elsewhere", 1)
	if err != nil {
		return nil, err
	}
	s := &side{name: "Parley WS at another node", ours: true, run: func(int) (trial, error) {
		return atBoth(func(p *process) (trial, error) {
			return c.measure(e, "cluster", func() (load.Result, error) { return load.Append(e.ctx, p.target, load.Native{}, ids, 1, 1, e.span) })
		}, c)
	}}
	r := &result{what: "cluster: one durable event per request, one writer", sides: []*side{s}, more: showExtra, checks: []check{{extra, bound{.0015, ""}, bound{.0005, ""}}}}
	return r, alternate(e, e.trials, s)
}

// readInCluster measures how soon readers at another node have events and pieces.
func readInCluster(e *env) ([]*result, error) {
	c, err := startCluster(e, filepath.Join(e.temp, "cluster-read"))
	if err != nil {
		return nil, err
	}
	defer c.stop()
	return collect(func() (*result, error) { return seenElsewhere(e, c) }, func() (*result, error) { return piecesElsewhere(e, c, e.shrink(500)) })
}

// withReadersAt runs one trial with a reader of each session at a node.
func (c *clusterProcesses) withReadersAt(e *env, p *process, ids []string, run func(r *load.Readers) (load.Result, error)) (t trial, err error) {
	r, err := load.NewReaders()
	if err != nil {
		return t, err
	}
	if err = r.Watch(p.target, load.Native{}, ids); err == nil {
		t, err = c.measure(e, "cluster", func() (load.Result, error) { return run(r) })
	}
	return t, errors.Join(err, r.Close(), c.waitIdle())
}

func seenElsewhere(e *env, c *clusterProcesses) (*result, error) {
	ids, err := c.sessions("seen", 1)
	if err != nil {
		return nil, err
	}
	s := &side{name: "Parley WS, reader at another node", ours: true, run: func(int) (trial, error) {
		return atBoth(func(p *process) (trial, error) {
			return c.withReadersAt(e, p, ids, func(r *load.Readers) (load.Result, error) {
				return load.FanOut(e.ctx, c.owner.target, load.Native{}, r, ids[0], load.Flow{Writers: 1, Batch: 1, Rate: 100}, e.span)
			})
		}, c)
	}}
	r := &result{what: "cluster: publish to seen, 100 messages/s", sides: []*side{s}, more: showExtra, checks: []check{{extra, bound{.001, ""}, bound{.0003, ""}}}}
	return r, alternate(e, e.trials, s)
}

func piecesElsewhere(e *env, c *clusterProcesses, n int) (*result, error) {
	s := &side{name: "Parley WS, readers at another node", ours: true, run: func(i int) (trial, error) {
		ids, err := c.sessions(fmt.Sprint("pieces-", i), n)
		if err != nil {
			return trial{}, err
		}
		return c.withReadersAt(e, c.other, ids, func(r *load.Readers) (load.Result, error) {
			return load.Pieces(e.ctx, c.owner.target, load.Native{}, r, ids, 20, e.span)
		})
	}}
	r := &result{what: fmt.Sprintf("cluster: %d sessions x 20 pieces/s, one reader each", n), sides: []*side{s}, checks: []check{{p99, bound{30, ""}, bound{10, ""}}}}
	return r, alternate(e, e.trials, s)
}

// core is the share of a processor core that a process uses.
var core = metric{"CPU", func(t *trial) float64 { return t.cost }, func(v float64) string { return fmt.Sprintf("%.1f %% of a core", v) }, false}

// idleInCluster measures what an idle node takes more than an idle single server.
func idleInCluster(e *env) ([]*result, error) {
	s := &side{name: "Parley, each node", ours: true, run: func(i int) (t trial, err error) {
		single, err := startParley(e, filepath.Join(e.temp, fmt.Sprint("cluster-single-", i)))
		if err != nil {
			return t, err
		}
		alone, err := idle(e, single)
		single.stop()
		if err != nil {
			return t, err
		}
		c, err := startCluster(e, filepath.Join(e.temp, fmt.Sprint("cluster-idle-", i)))
		if err != nil {
			return t, err
		}
		defer c.stop()
		t, err = idle(e, c.nodes...)
		t.cost, t.memory = t.cost-alone.cost, t.memory-alone.memory
		return t, err
	}}
	r := &result{
		what: "cluster: an idle node, over an idle single server", sides: []*side{s},
		more:   func(s *side) string { return memory.show(s.value(memory)) + ", " + core.show(s.value(core)) },
		checks: []check{{memory, bound{80, ""}, bound{50, ""}}, {core, bound{5, ""}, bound{2, ""}}},
	}
	return []*result{r}, alternate(e, e.trials, s)
}

// idle measures the mean memory and processor time of idle processes.
func idle(e *env, all ...*process) (t trial, err error) {
	time.Sleep(e.span) // what is left of the start
	var before time.Duration
	for _, p := range all {
		before += p.cpu()
	}
	span := 3 * e.span
	time.Sleep(span)
	var used time.Duration
	for _, p := range all {
		used += p.cpu()
		m, err := p.memory("VmRSS")
		if err != nil {
			return t, err
		}
		t.memory += m / int64(len(all))
	}
	t.cost = 100 * float64(used-before) / float64(span) / float64(len(all))
	return t, nil
}
