package session

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/hub"
	store "github.com/parley-hq/parley/internal/journal"
)

// bench opens Sessions on a journal on the real disk, with one session per writer.
func bench(b *testing.B, writers int) []func() {
	j, err := store.Open(b.TempDir(), store.Options{MinFree: -1, MinFreePercent: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	s := New(j, hub.New(j, hub.Options{}), Options{})
	steps := make([]func(), writers)
	for w := range steps {
		id := chat.SessionID(fmt.Sprint("s-", w))
		if _, _, err := s.Create(ctx, ann, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			b.Fatal(err)
		}
		// An event of about 300 bytes, like those of a dialect.
		payload := json.RawMessage(`{"text":"` + strings.Repeat("x", 60) + `"}`)
		steps[w] = func() {
			drafts := []chat.Draft{{Type: "user.message", Payload: payload}}
			if _, err := s.Append(ctx, ann, id, drafts); err != nil {
				b.Error(err)
			}
		}
	}
	return steps
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			steps := bench(b, writers)
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, step := range steps {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						step()
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

// BenchmarkPreview shows pieces of an agent in the process, one after the other.
func BenchmarkPreview(b *testing.B) {
	j, err := store.Open(b.TempDir(), store.Options{MinFree: -1, MinFreePercent: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	s := New(j, hub.New(j, hub.Options{}), Options{})
	ids := make([]chat.SessionID, 64)
	for i := range ids {
		ids[i] = chat.SessionID(fmt.Sprint("s-", i))
		if _, _, err := s.Create(ctx, ann, chat.NewSession{ID: ids[i], Agent: chat.NoAgent}); err != nil {
			b.Fatal(err)
		}
	}
	runner := chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "a"}, Scopes: []chat.Scope{chat.ScopeAgent, chat.ScopeAdmin}, AllWorkspaces: true}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := s.Preview(ctx, runner, ids[i%len(ids)], []chat.Preview{{Block: "b", Kind: chat.TextBlock, Text: "x ", AtEnd: true}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRatio alternates appends and direct Pebble writes, so that other load on the
// machine affects both, and reports the median ratio.
func BenchmarkRatio(b *testing.B) {
	const window = 150 * time.Millisecond
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			ours, bare := bench(b, writers), make([]func(), writers)
			db, err := pebble.Open(b.TempDir(), &pebble.Options{MemTableSize: 16 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			value := []byte(strings.Repeat("v", 300))
			for w := range bare {
				var seq uint64
				bare[w] = func() {
					seq++
					key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{'E'}, uint64(w)), seq)
					if err := db.Set(key, value, pebble.Sync); err != nil {
						b.Error(err)
					}
				}
			}
			rate := func(steps []func()) float64 {
				var done atomic.Int64
				start := time.Now()
				var wg sync.WaitGroup
				for _, step := range steps {
					wg.Go(func() {
						for time.Since(start) < window {
							step()
							done.Add(1)
						}
					})
				}
				wg.Wait()
				return float64(done.Load()) / time.Since(start).Seconds()
			}
			var ratios, rates []float64
			for b.Loop() {
				runtime.GC()
				x, y := rate(ours), rate(bare)
				ratios, rates = append(ratios, x/y), append(rates, x)
			}
			slices.Sort(ratios)
			slices.Sort(rates)
			b.ReportMetric(ratios[len(ratios)/2], "of-pebble")
			b.ReportMetric(rates[len(rates)/2], "appends/s")
		})
	}
}
