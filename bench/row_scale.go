package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// flat are the checks of a row whose cost must not depend on its size: an append takes as long as with the smallest one.
func flat(smallest string) []check {
	return []check{{p50, bound{1.3, smallest}, bound{1.1, smallest}}}
}

func showScale(s *side) string {
	if s.value(took) == 0 {
		return memory.show(s.value(memory))
	}
	return "start " + took.show(s.value(took)) + ", " + memory.show(s.value(memory))
}

// amount is a number as people write it.
func amount(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprint(n/1_000_000, " M")
	case n >= 1000:
		return fmt.Sprint(n/1000, " k")
	}
	return fmt.Sprint(n)
}

// storedSessions measures the start, the memory and an append of a server with more and more sessions in its store.
func storedSessions(e *env) ([]*result, error) {
	sizes := []int{1000, 10_000, 100_000, 1_000_000}
	if e.short {
		sizes = sizes[:2]
	}
	return grown(e, "sessions in the store: an append of one writer", sizes, func(data string, n int) (session string, err error) {
		return "", buildStore(e.ctx, filepath.Join(data, "store"), n)
	})
}

// storedEvents does the same with more and more events in the session of the append.
func storedEvents(e *env) ([]*result, error) {
	sizes := []int{1000, 10_000, 100_000, 1_000_000}
	if e.short {
		sizes = sizes[:2]
	}
	return grown(e, "events in the session: an append of one writer", sizes, func(data string, n int) (session string, err error) {
		p, err := startParley(e, data)
		if err != nil {
			return "", err
		}
		defer p.stop()
		ids, err := load.Sessions(p.target, "long", 1)
		if err != nil {
			return "", err
		}
		return ids[0], fillConversation(p.target, ids[0], n)
	})
}

// grown measures a server with data of several sizes. build makes them; an append is to the session that it returns, or to a new
// one.
func grown(e *env, what string, sizes []int, build func(data string, n int) (session string, err error)) ([]*result, error) {
	dir, err := os.MkdirTemp(e.temp, "grown-")
	if err != nil {
		return nil, err
	}
	r := &result{what: what, more: showScale, checks: flat(amount(sizes[0]))}
	for _, n := range sizes {
		data := filepath.Join(dir, fmt.Sprint(n))
		session, err := build(data, n)
		if err != nil {
			return nil, err
		}
		r.sides = append(r.sides, &side{name: amount(n), ours: true, run: func(i int) (t trial, err error) {
			p, err := startParley(e, data)
			if err != nil {
				return t, err
			}
			defer p.stop()
			ids := []string{session}
			if session == "" {
				if ids, err = load.Sessions(p.target, fmt.Sprint("new-", i), 1); err != nil {
					return t, err
				}
			}
			t, err = p.measure(e, fmt.Sprintf("grown-%d-%d", n, i), func() (load.Result, error) {
				return load.Append(e.ctx, p.target, load.Native{}, ids, 1, 1, e.span)
			})
			t.took = p.ready
			return t, errors.Join(err, readMemory(p, &t))
		}})
	}
	return []*result{r}, alternate(e, e.trials, r.sides...)
}

func readMemory(p *process, t *trial) (err error) {
	t.memory, err = p.memory("VmRSS")
	return err
}

// idleReaders measures an append with more and more readers of other sessions, which are idle.
func idleReaders(e *env) ([]*result, error) {
	p, err := startParley(e, filepath.Join(e.temp, "readers"))
	if err != nil {
		return nil, err
	}
	defer p.stop()
	r, err := readersAt(e, p, "idle readers of other sessions: an append of one writer", readerCounts(e), func(prefix string, n int) ([]string, error) {
		return load.Sessions(p.target, prefix, n)
	})
	return []*result{r}, err
}

// readerCounts are the numbers of readers. A process has a file for each.
func readerCounts(e *env) []int {
	if e.short {
		return []int{1, 100}
	}
	return []int{1, 100, 1000, 10_000, 19_000}
}

// readersAt measures appends to a session at a server, beside idle readers of a hundred others.
func readersAt(e *env, p *process, what string, counts []int, sessions func(prefix string, n int) ([]string, error)) (*result, error) {
	own, err := sessions("own", 1)
	if err != nil {
		return nil, err
	}
	others, err := sessions("others", 100)
	if err != nil {
		return nil, err
	}
	r := &result{what: what, more: showScale, checks: flat(amount(counts[0]))}
	for _, n := range counts {
		r.sides = append(r.sides, &side{name: amount(n), ours: true, run: func(i int) (t trial, err error) {
			readers, err := load.NewReaders()
			if err != nil {
				return t, err
			}
			watched := slices.Repeat(others, n/len(others)+1)[:n]
			if err = readers.Watch(p.target, load.Native{}, watched); err == nil {
				time.Sleep(e.span / 2) // they become idle
				t, err = p.measure(e, fmt.Sprintf("readers-%d-%d", n, i), func() (load.Result, error) {
					return load.Append(e.ctx, p.target, load.Native{}, own, 1, 1, e.span)
				})
				err = errors.Join(err, readMemory(p, &t))
			}
			return t, errors.Join(err, readers.Close(), p.waitIdle(e))
		}})
	}
	return r, alternate(e, e.trials, r.sides...)
}

// scaleInCluster measures appends at the owner with more and more events in the session, and with more and more readers.
func scaleInCluster(e *env) ([]*result, error) {
	c, err := startCluster(e, filepath.Join(e.temp, "cluster-scale"))
	if err != nil {
		return nil, err
	}
	defer c.stop()
	counts := readerCounts(e)
	return collect(func() (*result, error) {
		sizes := []int{1000, 10_000, 100_000}
		if e.short {
			sizes = sizes[:1]
		}
		r := &result{what: "cluster: events in the session: an append of one writer at the owner", checks: flat(amount(sizes[0]))}
		for _, n := range sizes {
			ids, err := c.sessions(fmt.Sprint("long-", n), 1)
			if err == nil {
				err = fillConversation(c.owner.target, ids[0], n)
			}
			if err != nil {
				return nil, err
			}
			r.sides = append(r.sides, &side{name: amount(n), ours: true, run: func(i int) (trial, error) {
				return c.measure(e, fmt.Sprintf("cluster-long-%d-%d", n, i), func() (load.Result, error) {
					return load.Append(e.ctx, c.owner.target, load.Native{}, ids, 1, 1, e.span)
				})
			}})
		}
		return r, alternate(e, e.trials, r.sides...)
	}, func() (*result, error) {
		return readersAt(e, c.owner, "cluster: idle readers of other sessions at the owner: an append of one writer", counts[:len(counts)-1], c.sessions)
	})
}
