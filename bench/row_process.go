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

// memory measures the memory of an idle process, and how much a reader adds.
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
	peerEach, err := memoryPerReader(e, pr.peer, readers, false)
	if err != nil {
		return lines, err
	}
	for _, by := range []string{"WebSocket", "SSE"} {
		p, err := startParley(e, filepath.Join(e.temp, "memory-"+by))
		if err != nil {
			return lines, err
		}
		each, err := memoryPerReader(e, p, readers, by == "SSE")
		p.stop()
		if err != nil {
			return lines, err
		}
		lines = append(lines, line{
			what: "memory per idle reader, " + by, ours: fmt.Sprintf("%.1f KB", each/1e3), peer: fmt.Sprintf("%.1f KB", peerEach/1e3),
			ratio: peerEach / each, value: each / 1e3, need: 14, want: 8, must: "14 KB", aim: "8 KB",
		})
	}
	return lines, nil
}

// memoryPerReader returns how much each of many readers of 100 sessions adds to a process.
func memoryPerReader(e *env, p *process, n int, sse bool) (float64, error) {
	ids, err := p.sessions("idle", 100)
	if err != nil {
		return 0, err
	}
	readers, err := load.NewReaders()
	if err != nil {
		return 0, err
	}
	defer readers.Close()
	before, err := p.memory("VmRSS")
	if err != nil {
		return 0, err
	}
	if ids = slices.Repeat(ids, n/len(ids)); sse {
		err = readers.WatchSSE(p.target, ids, nil)
	} else {
		err = readers.WatchWS(p.target, p.protocol(), ids)
	}
	if err != nil {
		return 0, err
	}
	time.Sleep(e.span)
	after, err := p.memory("VmRSS")
	return float64(after-before) / float64(readers.Len()), err
}

// startFull measures the time from the start of the process to the first good answer, with many sessions in the store. The
// peer is a process that only opens a copy of that store.
func startFull(e *env) ([]line, error) {
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
	ours := &side{name: "Parley", run: func(int) (trial, error) { return startAndStop(startParley(e, data)) }}
	peer := &side{name: "bare Pebble", run: func(int) (trial, error) { return startAndStop(startPeer(e, bareFlag, bare)) }}
	if err := alternate(e, max(e.trials, 2), ours, peer); err != nil {
		return nil, err
	}
	return []line{{
		what: fmt.Sprintf("start to ready with %d sessions stored", sessions), ours: fmt.Sprintf("%s, %s", ms(ours.took()), mb(ours.memory())),
		peer:  fmt.Sprintf("%s, %s, bare Pebble on the same store", ms(peer.took()), mb(peer.memory())),
		ratio: float64(peer.took()) / float64(ours.took()), value: ours.took().Seconds(), need: 1, want: .3, must: "1 s", aim: "0.3 s",
	}}, nil
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
