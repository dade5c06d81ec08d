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

// appendInProcess holds an append by the rules against one bare Set, both
// durable, in this process. A second line holds it against bare Pebble that
// stores as many keys and bytes as the append does: what is left of the gap is
// the rules, the encoding and the hash.
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

// contender is one way to append in this process.
type contender struct {
	steps        []func() error
	rates, costs []float64
}

func (c *contender) run(span time.Duration) error {
	r, cost, err := rate(c.steps, span)
	c.rates, c.costs = append(c.rates, r), append(c.costs, cost)
	return err
}

func (c *contender) String() string {
	return fmt.Sprintf("%s, %.0f µs cpu each", perSecond(median(c.rates)), median(c.costs))
}

// over is the median of the ratios of the rounds.
func (c *contender) over(peer *contender) float64 {
	var ratios []float64
	for i := range c.rates {
		ratios = append(ratios, c.rates[i]/peer.rates[i])
	}
	return median(ratios)
}

func appendWith(e *env, dir string, writers int) (lines []line, err error) {
	j, err := journal.Open(filepath.Join(dir, "ours"), journal.Options{MinFree: -1, MinFreePercent: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	sessions := session.New(j, hub.New(j, hub.Options{}), session.Options{DefaultAgent: "demo"})
	caller := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "u"}, Scopes: []chat.Scope{chat.ScopeUser}}
	ours := &contender{steps: make([]func() error, writers)}
	var size int // of a stored event
	for w := range ours.steps {
		sess, _, err := sessions.Create(e.ctx, caller, chat.NewSession{Agent: chat.NoAgent})
		if err != nil {
			return nil, err
		}
		say := func() ([]chat.Event, error) {
			return sessions.Append(context.Background(), caller, sess.ID, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: words[:289]})})
		}
		ours.steps[w] = func() error { _, err := say(); return err }
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
	peer, same := &contender{steps: db.writers(writers)}, &contender{steps: alike.pairs(writers, size)}

	for i := range 2*e.rounds + 1 {
		end, err := profileSelf(e, fmt.Sprintf("in-process-%d-%d", writers, i))
		if err != nil {
			return nil, err
		}
		err = ours.run(e.span / 4)
		end()
		if err = errors.Join(err, peer.run(e.span/4), same.run(e.span/4)); err != nil {
			return nil, err
		}
	}
	r := ours.over(peer)
	what := fmt.Sprintf("durable append in-process, %d writers, against bare Pebble", writers)
	return []line{{
		what: what, ours: ours.String(), peer: peer.String(),
		ratio: r, value: r, floor: true, need: 0.8, want: 0.95, must: "0.8 x", aim: "0.95 x",
	}, {
		what: what + " with as many keys and bytes", ours: ours.String(), peer: same.String(), ratio: ours.over(same),
	}}, nil
}

// rate runs all steps beside each other for a while; cost is the processor time
// of one in µs.
func rate(steps []func() error, span time.Duration) (perSecond, cost float64, err error) {
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
		return 0, 0, *p
	}
	n := float64(max(done.Load(), 1))
	return n / time.Since(begun).Seconds(), float64((used() - before).Microseconds()) / n, nil
}

// used is the processor time that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
