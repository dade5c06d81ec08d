package natslog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
)

// BenchmarkAppend compares plain appends with commits through a replica, on three nodes in one process. The first one is what
// JetStream alone does.
func BenchmarkAppend(b *testing.B) {
	logs, _ := three(b)
	data := make([]byte, 400)
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("ack/%d", writers), func(b *testing.B) {
			measure(b, writers, func() error { return logs[0].Append(b.Context(), 1, data) })
		})
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r := cluster.NewReplica(cluster.ReplicaOptions{Cluster: "c1", Node: "n0", Log: logs[0], Store: discard{}, Takeover: 10 * time.Millisecond, Heartbeat: 10 * time.Millisecond})
	go func() { _ = r.Run(ctx) }() // until the end
	for !r.Status().Owns {
		time.Sleep(10 * time.Millisecond)
	}
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("commit/%d", writers), func(b *testing.B) {
			measure(b, writers, func() error { _, err := r.Commit(cluster.Record{Kind: 1, Data: data}); return err })
		})
	}
}

type discard struct{}

func (discard) Apply([]cluster.Record, cluster.Copy) ([]error, error) { return nil, nil }

// measure calls f by several goroutines and reports the median time of a call.
func measure(b *testing.B, writers int, f func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	times := make([][]time.Duration, writers)
	var tasks sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		tasks.Go(func() {
			for left.Add(-1) >= 0 {
				begin := time.Now()
				if err := f(); err != nil {
					b.Error(err)
					return
				}
				times[w] = append(times[w], time.Since(begin))
			}
		})
	}
	tasks.Wait()
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "/s")
}
