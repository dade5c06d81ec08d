package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/session"
)

// appendInProcess compares a durable append with a durable Set of bare Pebble, both in this process. A second line compares
// it with bare Pebble that stores as many keys and bytes as the append: the rest of the difference is the rules, the
// encoding and the hash.
func appendInProcess(e *env) (lines []line, err error) {
	for i, writers := range []int{1, 64, 256} {
		l, err := appendWith(e, filepath.Join(e.temp, fmt.Sprintf("in-process-%d", i)), writers)
		lines = append(lines, l...)
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// user is the caller of sessions in this process.
var user = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "u"}, Scopes: []chat.Scope{chat.ScopeUser}}

// inProcess is a side that runs steps in this process, all at the same time.
func inProcess(name string, steps []func() error, span time.Duration) *side {
	return &side{name: name, run: func(int) (trial, error) { return runSteps(steps, span) }}
}

func appendWith(e *env, dir string, writers int) (lines []line, err error) {
	j, err := journal.Open(filepath.Join(dir, "ours"), journal.Options{MinFree: -1, MinFreePercent: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	sessions := session.New(j, hub.New(j, hub.Options{}), session.Options{DefaultAgent: "demo"})
	steps := make([]func() error, writers)
	var size int // of a stored event
	for w := range steps {
		sess, _, err := sessions.Create(e.ctx, user, chat.NewSession{Agent: chat.NoAgent})
		if err != nil {
			return nil, err
		}
		say := func() ([]chat.Event, error) {
			return sessions.Append(context.Background(), user, sess.ID, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: words[:289]})})
		}
		steps[w] = func() error { _, err := say(); return err }
		events, err := say()
		if err != nil {
			return nil, err
		}
		size = len(events[0].Fact().JSON)
	}
	db, err := openBare(filepath.Join(dir, "bare"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	alike, err := openBare(filepath.Join(dir, "alike"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, alike.Close()) }()
	peer, same := inProcess("bare Pebble", db.writers(writers), e.span/4), inProcess("bare Pebble", alike.pairs(writers, size), e.span/4)
	ours := &side{name: "Parley", run: func(i int) (trial, error) {
		end, err := profileSelf(e, fmt.Sprintf("in-process-%d-%d", writers, i))
		if err != nil {
			return trial{}, err
		}
		defer end()
		return runSteps(steps, e.span/4)
	}}
	if err := alternate(e, 2*e.trials+1, ours, peer, same); err != nil {
		return nil, err
	}
	show := func(s *side) string { return fmt.Sprintf("%s, %.0f µs cpu each", perSecond(s.rate()), s.cost()) }
	r := ours.over(peer)
	what := fmt.Sprintf("durable append in-process, %d writers, against bare Pebble", writers)
	return []line{{
		what: what, ours: show(ours), peer: show(peer),
		ratio: r, value: r, floor: true, need: 0.8, want: 0.95, must: "0.8 x", aim: "0.95 x",
	}, {
		what: what + " with as many keys and bytes", ours: show(ours), peer: show(same), ratio: ours.over(same),
	}}, nil
}

// runSteps repeats all steps for a while, each in its own goroutine.
func runSteps(steps []func() error, span time.Duration) (trial, error) {
	runtime.GC()
	before := used()
	var done atomic.Int64
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	begun := time.Now()
	for _, step := range steps {
		wg.Go(func() {
			n := int64(0)
			for time.Since(begun) < span {
				if err := step(); err != nil {
					first.CompareAndSwap(nil, &err)
					break
				}
				n++
			}
			done.Add(n)
		})
	}
	wg.Wait()
	if p := first.Load(); p != nil {
		return trial{}, *p
	}
	n := float64(max(done.Load(), 1))
	return trial{rate: n / time.Since(begun).Seconds(), cost: float64((used() - before).Microseconds()) / n}, nil
}

// used is the processor time that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
