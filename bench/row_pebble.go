package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/session"
)

// appendInProcess compares a durable append in this process with bare Pebble that stores as many keys and bytes: the
// difference is the rules, the encoding and the hash.
func appendInProcess(e *env) ([]*result, error) {
	return collect(func() (*result, error) { return appendWith(e, 64) }, func() (*result, error) { return appendWith(e, 256) })
}

// user is the caller of sessions in this process.
var user = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "u"}, Scopes: []chat.Scope{chat.ScopeUser}}

func appendWith(e *env, writers int) (r *result, err error) {
	dir := filepath.Join(e.temp, fmt.Sprintf("in-process-%d", writers))
	j, err := journal.Open(filepath.Join(dir, "parley"), journal.Options{MinFree: -1, MinFreePercent: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	sessions := session.New(j, hub.New(j, hub.Options{}), session.Options{DefaultAgent: "demo"})
	steps, events, err := sayings(e, sessions, writers)
	if err != nil {
		return nil, err
	}
	db, err := openPebble(filepath.Join(dir, "pebble"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	pairs := db.pairs(events)
	sides := []*side{
		{name: "Parley", ours: true, run: func(i int) (trial, error) {
			end, err := profileSelf(e, fmt.Sprintf("in-process-%d-%d", writers, i))
			if err != nil {
				return trial{}, err
			}
			defer end()
			return runSteps(steps, e.span/4)
		}},
		{name: "bare Pebble", run: func(int) (trial, error) { return runSteps(pairs, e.span/4) }},
	}
	r = &result{
		what: fmt.Sprintf("durable append in-process, %d writers, as many keys and bytes", writers), sides: sides,
		checks: []check{{rate, bound{.85, "bare Pebble"}, bound{.95, "bare Pebble"}}},
	}
	return r, alternate(e, 2*e.trials+1, sides...)
}

// runSteps repeats all steps for a while, each in its own goroutine.
func runSteps(steps []func() error, span time.Duration) (t trial, err error) {
	runtime.GC()
	before := used()
	var mu sync.Mutex
	var wg sync.WaitGroup
	begun, count := time.Now(), 0
	for _, step := range steps {
		wg.Go(func() {
			var h load.Histogram
			var failed error
			n := 0
			for at := begun; at.Sub(begun) < span && failed == nil; n++ {
				failed = step()
				now := time.Now()
				h.Add(now.Sub(at))
				at = now
			}
			mu.Lock()
			defer mu.Unlock()
			count += n
			err = errors.Join(err, failed)
			t.latency.Merge(&h)
		})
	}
	wg.Wait()
	t.rate, t.cost = float64(count)/time.Since(begun).Seconds(), float64((used()-before).Microseconds())/float64(max(count, 1))
	return t, err
}

// used is the processor time that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
