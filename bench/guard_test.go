package main

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/servertest"
)

// TestCostBesideBareServer compares what Parley and the bare server need for the same work. Both run in this process with
// the load, and neither syncs. Rates and latencies depend on what else the machine does; processor time and allocations for
// one message depend on it little, and their ratio to those of the bare server least. The bounds are wide: they find a cost
// that has about doubled. A fan-out is not among the works: its cost depends on how many messages share a write, and so on the
// machine.
func TestCostBesideBareServer(t *testing.T) {
	const turns, span = 3, 300 * time.Millisecond
	ours, bare := guardParley(t), guardBare(t)
	for _, work := range []struct {
		name              string
		cpu, allocs       float64 // bounds, in times of the bare server
		sessions, readers int     // readers of each session
		run               func(target load.Target, ids []string, r *load.Readers) (load.Result, error)
	}{
		{"pieces to 100 sessions", 3, 8, 100, 1, func(target load.Target, ids []string, r *load.Readers) (load.Result, error) {
			return load.Pieces(t.Context(), target, load.Native{}, r, ids, 20, span)
		}},
		{"appends of 16 writers", 3.5, 5, 16, 0, func(target load.Target, ids []string, _ *load.Readers) (load.Result, error) {
			return load.Append(t.Context(), target, load.Native{}, ids, 1, 1, span)
		}},
	} {
		var cpu, allocs []float64
		for i := range turns {
			var costs [2]cost
			for s, target := range []load.Target{ours, bare} {
				ids, err := load.Sessions(target, fmt.Sprintf("guard-%d-%d", work.sessions, i), work.sessions)
				if err != nil {
					t.Fatal(err)
				}
				r, err := load.NewReaders()
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Watch(target, load.Native{}, slices.Repeat(ids, work.readers)); err != nil {
					t.Fatal(err)
				}
				costs[s], err = costOf(func() (load.Result, error) { return work.run(target, ids, r) })
				if err := errors.Join(err, r.Close()); err != nil {
					t.Fatalf("%s: %v", work.name, err)
				}
			}
			cpu, allocs = append(cpu, costs[0].cpu/costs[1].cpu), append(allocs, costs[0].allocs/costs[1].allocs)
			t.Logf("%s: Parley %.1f µs and %.1f allocations, bare server %.1f µs and %.1f: %.2f and %.1f times",
				work.name, costs[0].cpu, costs[0].allocs, costs[1].cpu, costs[1].allocs, cpu[i], allocs[i])
		}
		// The least of the turns: other load mostly adds.
		if r := slices.Min(cpu); r > work.cpu {
			t.Errorf("%s: %.2f times the processor time of the bare server, the bound is %.2f", work.name, r, work.cpu)
		}
		if r := slices.Min(allocs); r > work.allocs {
			t.Errorf("%s: %.1f times the allocations of the bare server, the bound is %.1f", work.name, r, work.allocs)
		}
	}
}

// cost is that of one message or delivery, of the server and the load.
type cost struct{ cpu, allocs float64 }

func costOf(run func() (load.Result, error)) (cost, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := used()
	res, err := run()
	took := used() - began
	runtime.ReadMemStats(&after)
	n := float64(max(res.Count, 1))
	return cost{float64(took.Microseconds()) / n, float64(after.Mallocs-before.Mallocs) / n}, err
}

// guardParley starts Parley in this process.
func guardParley(t *testing.T) load.Target {
	s := servertest.Open(t, servertest.Options{})
	d := native.New(native.Options{Sessions: s.Sessions, Files: s.Files, Workers: s.Pool, Caller: s.Auth.Caller, Conns: s.Conns})
	s.Serve(d.Routes())
	return load.Target{Host: s.HTTP.Listener.Addr().String()}
}

// guardBare starts the bare server in this process.
func guardBare(t *testing.T) load.Target {
	db, err := openPebble(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go (&bareServer{db: db, sync: pebble.NoSync, sessions: map[string]*bareSession{}}).serve(l) // ends with the listener
	t.Cleanup(func() {
		l.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return load.Target{Host: l.Addr().String()}
}
