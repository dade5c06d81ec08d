package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/load"
)

// dialectRuns compares readers of other dialects with native readers. A worker answers n turns at the same time, and each
// turn has one reader. Vertesia's stream sends a chunk every 16 ms at most.
func dialectRuns(e *env) ([]*result, error) {
	n := e.shrink(2000)
	p, err := startParley(e, filepath.Join(e.temp, "runs"))
	if err != nil {
		return nil, err
	}
	defer p.stop()
	r := &result{
		what:   fmt.Sprintf("%d answers of a worker x 20 pieces/s, one SSE reader each", n),
		checks: []check{{p99, bound{320, ""}, bound{150, ""}}, {cpu, bound{1.3, "native"}, bound{1.1, "native"}}},
	}
	for _, c := range []struct {
		name string
		path func(session, turn string) string
	}{
		{"Vertesia", func(session, _ string) string { return "/api/v1/agents/" + session + "/stream?skipHistory=true" }},
		{"AI SDK", func(session, _ string) string { return "/api/chat/" + session + "/stream" }},
		{"AG-UI", func(session, turn string) string {
			return "/ag-ui/bench?threadId=" + session + "&offset=-1&runId=" + turn
		}},
		{"native", func(session, _ string) string { return "/parley/v1/sessions/" + session + "/stream" }},
	} {
		r.sides = append(r.sides, &side{name: c.name, ours: c.name != "native", run: func(i int) (trial, error) {
			return runTurns(e, p, fmt.Sprintf("runs-%s-%d", strings.ReplaceAll(c.name, " ", "-"), i), n, c.path)
		}})
	}
	return []*result{r}, alternate(e, e.trials, r.sides...)
}

// runTurns starts a turn in each of n sessions, adds a reader to each, and then lets all turns write 20 pieces a second.
func runTurns(e *env, p *process, name string, n int, path func(session, turn string) string) (r trial, err error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	c, err := client.New(client.Options{URL: "http://" + p.target.Host})
	if err != nil {
		return r, err
	}
	w, begun := newAnswers(), make(chan *agent.Turn, n)
	worked := make(chan error, 1)
	go func() {
		worked <- c.Work(ctx, "bench", client.WorkOptions{Slots: n}, agent.Func(func(ctx context.Context, t *agent.Turn) error {
			out := t.Stream(true)
			return errors.Join(w.write(ctx, func() { begun <- t }, func(text string) error { return out.Write(ctx, text) }), out.Close(ctx))
		}))
	}()
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
		case t := <-begun:
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
		by := load.SSE{Path: func(session string) string { return path(session, turn) }}
		if err := readers.Watch(p.target, by, []string{session}); err != nil {
			return r, err
		}
	}
	r, err = p.measure(e, name, func() (load.Result, error) { return w.run(ctx, readers, e.span) })
	err = errors.Join(err, readers.Close())
	close(w.finish)
	return r, errors.Join(err, p.waitIdle(e)) // the turns end before the worker does
}

// answers are texts that are written at the same time, as agents or models do.
type answers struct {
	begin, end, finish chan struct{}
	running            sync.WaitGroup

	mu     sync.Mutex
	sent   int64
	failed error
}

func newAnswers() *answers {
	return &answers{begin: make(chan struct{}), end: make(chan struct{}), finish: make(chan struct{})}
}

// write sends 20 stamped pieces a second of one answer between begin and end, and returns after finish. started is called when
// run may begin.
func (w *answers) write(ctx context.Context, started func(), send func(text string) error) error {
	w.running.Add(1)
	started()
	select {
	case <-w.begin:
	case <-ctx.Done():
		w.running.Done()
		return context.Cause(ctx)
	}
	n, err := int64(0), error(nil)
	time.Sleep(rand.N(50 * time.Millisecond)) // real answers do not begin at the same moment
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done && err == nil; {
		select {
		case <-tick.C:
			if err = send(string(load.AppendStamp(nil, time.Now())) + " a few words more"); err == nil {
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
	return nil
}

// run lets all answers write for a while and waits until the readers have everything. The caller closes finish when no
// reader is left: the whole text, which follows, has all stamps again.
func (w *answers) run(ctx context.Context, readers *load.Readers, span time.Duration) (load.Result, error) {
	readers.Take()
	from, begun := readers.Seen(), time.Now()
	close(w.begin)
	select {
	case <-time.After(span):
	case <-ctx.Done():
	}
	close(w.end)
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	err := errors.Join(readers.Wait(from+w.sent), w.failed, ctx.Err())
	took, seen := time.Since(begun).Seconds(), readers.Seen()-from
	return load.Result{PerSecond: float64(seen) / took, Count: seen, Latency: readers.Take()}, err
}
