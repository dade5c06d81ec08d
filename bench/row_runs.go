package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/load"
)

// pageRuns compares pages of the AI SDK and of AG-UI with native readers. A worker answers n turns at the same time, and each
// turn has one reader.
func pageRuns(e *env) (lines []line, err error) {
	n := 2000
	if e.short {
		n = 100
	}
	p, err := startParley(e, e.temp+"/runs")
	if err != nil {
		return nil, err
	}
	defer p.stop()
	var sides []*side
	for _, c := range []struct {
		name string
		path func(session, turn string) string
	}{
		{"AI SDK", func(session, _ string) string { return "/api/chat/" + session + "/stream" }},
		{"AG-UI", func(session, turn string) string {
			return "/ag-ui/bench?threadId=" + session + "&offset=-1&runId=" + turn
		}},
		{"native", nil},
	} {
		sides = append(sides, &side{name: c.name, run: func(i int) (trial, error) {
			return runTurns(e, p, fmt.Sprintf("runs-%d-%d", len(c.name), i), n, c.path)
		}})
	}
	if err := alternate(e, e.trials, sides...); err != nil {
		return nil, err
	}
	native := sides[2]
	show := func(s *side) string {
		return fmt.Sprintf("%s (p50 %s, %.0f µs cpu each)", ms(s.quantile(.99)), ms(s.quantile(.5)), s.cost())
	}
	for _, s := range sides[:2] {
		p99 := s.quantile(.99)
		lines = append(lines, line{
			what: fmt.Sprintf("%d %s runs x 20 pieces/s, one SSE reader each, p99", n, s.name), ours: show(s), peer: show(native) + ", native SSE",
			ratio: float64(native.quantile(.99)) / float64(p99), value: inMS(p99), need: 320, want: 150, must: "320 ms", aim: "150 ms",
		})
	}
	return lines, nil
}

// runTurns starts a turn in each of n sessions, adds a reader to each, and then lets all turns write 20 pieces a second.
func runTurns(e *env, p *process, name string, n int, path func(session, turn string) string) (r trial, err error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	c, err := client.New(client.Options{URL: "http://" + p.target.Host})
	if err != nil {
		return r, err
	}
	w := &writers{begin: make(chan struct{}), end: make(chan struct{}), finish: make(chan struct{}), started: make(chan *agent.Turn, n)}
	worked := make(chan error, 1)
	go func() { worked <- c.Work(ctx, "bench", client.WorkOptions{Slots: n}, agent.Func(w.answer)) }()
	defer func() {
		cancel()
		<-worked
	}()
	turns := map[string]string{}
	for i := range n {
		id := chat.SessionID(fmt.Sprintf("%s-%d", name, i))
		if _, err := c.Create(ctx, client.NewSession{ID: id, Agent: "bench"}); err != nil {
			return r, err
		}
		if _, err := c.Send(ctx, id, chat.UserMessage{Text: "go"}, ""); err != nil {
			return r, err
		}
	}
	for range n {
		select {
		case t := <-w.started:
			turns[string(t.Session)] = string(t.ID)
		case err := <-worked:
			worked <- err
			return r, fmt.Errorf("the worker ended: %w", err)
		case <-time.After(30 * time.Second):
			return r, fmt.Errorf("%d of %d turns have started", len(turns), n)
		}
	}
	readers, err := load.NewReaders()
	if err != nil {
		return r, err
	}
	for session, turn := range turns {
		var of func(string) string
		if path != nil {
			of = func(session string) string { return path(session, turn) }
		}
		if err := readers.WatchSSE(p.target, []string{session}, of); err != nil {
			return r, err
		}
	}
	r, err = p.measure(e, name, func() (load.Result, error) {
		readers.Take()
		from, begun := readers.Seen(), time.Now()
		close(w.begin)
		select {
		case <-time.After(e.span):
		case <-ctx.Done():
			return load.Result{}, ctx.Err()
		}
		close(w.end)
		sent := w.wait()
		err := errors.Join(readers.Wait(from+sent), w.err())
		took, seen := time.Since(begun).Seconds(), readers.Seen()-from
		return load.Result{PerSecond: float64(seen) / took, Count: seen, Latency: readers.Take()}, err
	})
	err = errors.Join(err, readers.Close())
	close(w.finish)
	return r, errors.Join(err, p.waitIdle(e)) // the turns end before the worker does
}

// writers are the turns of a trial.
type writers struct {
	begin, end, finish chan struct{}
	started            chan *agent.Turn
	running            sync.WaitGroup

	mu     sync.Mutex
	sent   int64
	failed error
}

// answer writes stamped pieces between begin and end.
func (w *writers) answer(ctx context.Context, t *agent.Turn) error {
	w.running.Add(1)
	w.started <- t
	<-w.begin
	out := t.Stream(true)
	n, err := int64(0), error(nil)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done && err == nil; {
		select {
		case <-tick.C:
			if err = out.Write(ctx, string(load.AppendStamp(nil, time.Now()))+" a few words more"); err == nil {
				n++
			}
		case <-w.end:
			done = true
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	w.mu.Lock()
	w.sent += n
	w.failed = errors.Join(w.failed, err)
	w.mu.Unlock()
	w.running.Done()
	<-w.finish
	return out.Close(ctx)
}

func (w *writers) wait() int64 {
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func (w *writers) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
