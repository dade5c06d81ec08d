package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/load"
)

// memory: what a process that does nothing takes, and what a reader adds.
func memory(e *env) (lines []line, err error) {
	readers := 4000
	if e.short {
		readers = 500
	}
	pr, err := startPair(e, "memory")
	if err != nil {
		return nil, err
	}
	defer pr.stop()
	time.Sleep(e.span)
	idle, err := pr.ours.memory("VmRSS")
	if err != nil {
		return nil, err
	}
	peer, err := pr.peer.memory("VmRSS")
	if err != nil {
		return nil, err
	}
	lines = append(lines, line{
		what: "idle memory of the process", ours: mb(idle), peer: mb(peer), ratio: float64(peer) / float64(idle),
		value: float64(idle) / 1e6, need: 60, want: 35, must: "60 MB", aim: "35 MB",
	})
	peerEach, err := memoryOf(e, pr.peer, readers, func(c *load.Crowd, ids []string) error {
		return c.WatchWS(pr.peer.target, centrifugeJSON{}, ids)
	})
	if err != nil {
		return lines, err
	}
	for _, way := range []struct {
		name  string
		watch func(c *load.Crowd, p *process, ids []string) error
	}{
		{"WebSocket", func(c *load.Crowd, p *process, ids []string) error { return c.WatchWS(p.target, load.Native{}, ids) }},
		{"SSE", func(c *load.Crowd, p *process, ids []string) error { return c.WatchSSE(p.target, ids, "") }},
	} {
		p, err := startParley(e, filepath.Join(e.temp, "memory-"+way.name))
		if err != nil {
			return lines, err
		}
		each, err := memoryOf(e, p, readers, func(c *load.Crowd, ids []string) error { return way.watch(c, p, ids) })
		p.stop()
		if err != nil {
			return lines, err
		}
		lines = append(lines, line{
			what: "memory per idle reader, " + way.name, ours: fmt.Sprintf("%.1f KB", each/1e3), peer: fmt.Sprintf("%.1f KB", peerEach/1e3),
			ratio: peerEach / each, value: each / 1e3, need: 14, want: 8, must: "14 KB", aim: "8 KB",
		})
	}
	return lines, nil
}

// memoryOf is what each of many readers of 100 sessions adds to a process.
func memoryOf(e *env, p *process, readers int, watch func(c *load.Crowd, ids []string) error) (float64, error) {
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = fmt.Sprintf("idle-%d", i)
	}
	if p.cmd.Args[0] == e.binary {
		var err error
		if ids, err = load.Sessions(p.target, "idle", len(ids)); err != nil {
			return 0, err
		}
	}
	c, err := load.NewCrowd()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	before, err := p.memory("VmRSS")
	if err != nil {
		return 0, err
	}
	if err := watch(c, slices.Repeat(ids, readers/len(ids))); err != nil {
		return 0, err
	}
	time.Sleep(e.span)
	after, err := p.memory("VmRSS")
	return float64(after-before) / float64(c.Len()), err
}

// startFull: from the start of the process to the first good answer, with many
// sessions in the store. The peer is a process that only opens that store.
func startFull(e *env) ([]line, error) {
	sessions := 1_000_000
	if e.short {
		sessions = 20_000
	}
	data := e.store
	if e.short {
		data = filepath.Join(e.temp, "full")
	}
	// The marker is written last: half a store is made anew.
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
	var times, peers []time.Duration
	var rss, peerRSS []int64
	for range max(e.rounds, 2) {
		t, m, err := ready(startParley(e, data))
		if err != nil {
			return nil, err
		}
		times, rss = append(times, t), append(rss, m)
		// The very same store, so that what is left is Parley's.
		if t, m, err = ready(startBare(e, filepath.Join(data, "store", "db"))); err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
		peers, peerRSS = append(peers, t), append(peerRSS, m)
	}
	t, peer := median(times), median(peers)
	return []line{{
		what: fmt.Sprintf("start to ready with %d sessions stored", sessions), ours: fmt.Sprintf("%s, %s", ms(t), mb(median(rss))),
		peer: fmt.Sprintf("%s, %s, bare Pebble on the same store", ms(peer), mb(median(peerRSS))), ratio: float64(peer) / float64(t),
		value: t.Seconds(), need: 1, want: .3, must: "1 s", aim: "0.3 s",
	}}, nil
}

// ready says how long a process took to get ready and what it takes then, and
// ends it.
func ready(p *process, err error) (time.Duration, int64, error) {
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	m, err := p.memory("VmRSS")
	return p.ready, m, err
}

// buildStore makes a store with many sessions of one event, without syncs.
func buildStore(ctx context.Context, dir string, sessions int) (err error) {
	j, err := journal.Open(dir, journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	owner := chat.Actor{Kind: chat.User, ID: "u"}
	var next atomic.Int64
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(sessions) && ctx.Err() == nil && first.Load() == nil; i = next.Add(1) {
				if err := begin(ctx, j, owner, chat.SessionID(fmt.Sprintf("s-full-%d", i))); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if p := first.Load(); p != nil {
		return *p
	}
	return ctx.Err()
}

func begin(ctx context.Context, j *journal.Journal, owner chat.Actor, id chat.SessionID) error {
	n, _, err := j.Number(ctx, id)
	if err != nil {
		return err
	}
	body := chat.SessionStarted{Agent: chat.NoAgent, Title: "one of many", Workspace: chat.DefaultWorkspace}
	d := chat.NewDraft(body)
	if err := d.Settle(); err != nil {
		return err
	}
	st := &chat.State{Number: n}
	ev := chat.Event{
		Session: id, Seq: 1, At: chat.AtOf(time.Now()), Type: d.Type, ID: chat.EventID(chat.MakeID(n, 1).Text(chat.EventPrefix)),
		Actor: owner, Payload: d.Payload, Body: body,
	}
	fact := ev.Fact()
	st.Apply(&ev)
	st.Head = fact.Hash()
	return j.Commit(ctx, &chat.Commit{
		Session: id, Number: n, Events: []chat.Event{ev}, Facts: []chat.Fact{fact}, State: st, Record: true,
	})
}
