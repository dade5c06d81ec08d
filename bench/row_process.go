package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/session"
)

// idleMemory measures the memory of an idle process, and how much each of many readers of 100 sessions adds. Every driver has
// a process of its own.
func idleMemory(e *env) ([]*result, error) {
	n := e.shrink(4000)
	r := &result{
		what:   fmt.Sprintf("idle process, and each of %d idle readers", n),
		more:   func(s *side) string { return memory.show(s.value(memory)) + ", " + each.show(s.value(each)) },
		checks: []check{{memory, bound{45, ""}, bound{35, ""}}, {each, bound{11, ""}, bound{8, ""}}},
	}
	for _, d := range drivers {
		if d.subscribe == nil || !d.system.there() {
			continue
		}
		r.sides = append(r.sides, &side{name: d.name, ours: d.system == parley, run: func(i int) (t trial, err error) {
			p, err := d.system.start(e, filepath.Join(e.temp, fmt.Sprintf("idle-%s-%d", d.name, i)))
			if err != nil {
				return t, err
			}
			defer p.stop()
			time.Sleep(e.span)
			if t.memory, err = p.memory("VmRSS"); err != nil {
				return t, err
			}
			ids, err := (&instance{d, p}).sessions("idle", 100)
			if err != nil {
				return t, err
			}
			before, err := p.memory("VmRSS")
			if err != nil {
				return t, err
			}
			readers, err := load.NewReaders()
			if err != nil {
				return t, err
			}
			defer readers.Close()
			if err := readers.Watch(p.target, d.subscribe, slices.Repeat(ids, n/len(ids))); err != nil {
				return t, err
			}
			time.Sleep(e.span)
			after, err := p.memory("VmRSS")
			t.perReader = float64(after-before) / float64(readers.Len())
			return t, err
		}})
	}
	return []*result{r}, alternate(e, e.trials, r.sides...)
}

// startFull measures the time from the start of the process to the first good answer, with many sessions in the store. The
// peer is a process that only opens a copy of that store.
func startFull(e *env) ([]*result, error) {
	sessions := 1_000_000
	if e.short {
		sessions = 20_000
	}
	data := e.store
	if e.short {
		data = filepath.Join(e.temp, "full")
	}
	// The marker is written last, so that an incomplete store is built again.
	marker := filepath.Join(data, fmt.Sprintf("sessions-%d", sessions))
	if _, err := os.Stat(marker); err != nil {
		if err := os.RemoveAll(filepath.Join(data, "store")); err != nil {
			return nil, err
		}
		begun := time.Now()
		if err := buildStore(e.ctx, filepath.Join(data, "store"), sessions); err != nil {
			return nil, err
		}
		if err := os.WriteFile(marker, nil, 0o600); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "bench: built a store of %d sessions in %.0f s\n", sessions, time.Since(begun).Seconds())
	}
	// Bare Pebble gets a copy: it replaces files, which Parley would report as damage.
	bare := filepath.Join(e.temp, "full-bare")
	if err := os.CopyFS(bare, os.DirFS(filepath.Join(data, "store", "db"))); err != nil {
		return nil, err
	}
	sides := []*side{
		{name: "Parley", ours: true, run: func(int) (trial, error) { return startAndStop(startParley(e, data)) }},
		{name: "bare Pebble", run: func(int) (trial, error) { return startAndStop(startSelf(e, pebbleFlag, bare)) }},
	}
	return []*result{{
		what: fmt.Sprintf("start to ready with %d sessions stored", sessions), sides: sides,
		more:   func(s *side) string { return took.show(s.value(took)) + ", " + memory.show(s.value(memory)) },
		checks: []check{{took, bound{1, ""}, bound{.3, ""}}},
	}}, alternate(e, max(e.trials, 2), sides...)
}

// startAndStop measures how long a process took to get ready and its memory then, and ends it.
func startAndStop(p *process, err error) (trial, error) {
	if err != nil {
		return trial{}, err
	}
	defer p.stop()
	m, err := p.memory("VmRSS")
	return trial{took: p.ready, memory: m}, err
}

// buildStore makes a store with many sessions of one event, without syncs.
func buildStore(ctx context.Context, dir string, n int) (err error) {
	j, err := journal.Open(dir, journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	sessions := session.New(j, hub.New(j, hub.Options{}), session.Options{DefaultAgent: "demo", Quotas: session.Quotas{Sessions: -1}})
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				_, _, errs[w] = sessions.Create(ctx, user, chat.NewSession{ID: chat.SessionID(fmt.Sprintf("s-full-%d", i)), Agent: chat.NoAgent, Title: "one of many"})
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
