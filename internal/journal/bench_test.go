package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// text makes an envelope of 300 bytes, as the bare value has.
var text = chat.AgentStatus{Message: "in a moment, with some words more to fill three hundred"}

func withWriters(b *testing.B, work func(writer int) func()) {
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			b.ReportAllocs()
			steps := make([]func(), writers)
			for w := range steps {
				steps[w] = work(w)
			}
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

// appender makes commits of one event each. They are made beforehand, by fill,
// because to decide and encode is not the journal's work.
type appender struct {
	j     *Journal
	c     *core.Commit
	s     chat.State // after c
	e     chat.Event
	ready []core.Commit
}

func newAppender(b testing.TB, j *Journal, id chat.SessionID) *appender {
	a := begin(b, j, id)
	a.Clock = chat.AtOf(time.Now())
	c, err := a.build(text)
	if err != nil {
		b.Fatal(err)
	}
	e := c.Events[0]
	w := &appender{j: j, c: c, s: *a.next, e: e, ready: []core.Commit{*c}}
	w.step(b)
	return w
}

// fill makes commits until n are ready.
func (w *appender) fill(n int) {
	for len(w.ready) < n {
		s := &w.s
		c := core.Commit{Session: w.c.Session, Number: w.c.Number, After: s.Last}
		w.e.Seq, w.e.At, w.e.Prev = s.Last+1, core.After(w.e.At+200, chat.AtOf(time.Now())), s.Head
		f := w.e.Fact()
		s.Last, s.LastAt, s.Head = w.e.Seq, w.e.At, f.Hash()
		c.Events, c.Facts = []chat.Event{w.e}, []chat.Fact{f}
		if err := c.SetState(s, false); err != nil {
			panic(err)
		}
		w.c = &c
		w.ready = append(w.ready, c)
	}
}

func (w *appender) step(b testing.TB) {
	if len(w.ready) == 0 {
		w.fill(1)
	}
	c := w.ready[0]
	w.ready = w.ready[1:]
	if err := w.j.Commit(context.Background(), &c); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkCommit(b *testing.B) {
	j := openTest(b, b.TempDir(), Options{})
	round := 0
	withWriters(b, func(w int) func() {
		round++
		a := newAppender(b, j, chat.SessionID(fmt.Sprintf("s-%d-%d", round, w)))
		a.fill(1500)
		return func() { a.step(b) }
	})
}

func BenchmarkBarePebble(b *testing.B) {
	db, err := pebble.Open(b.TempDir(), (&Journal{opt: Options{}.withDefaults()}).engineOptions(false))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	value := []byte(strings.Repeat("v", 300))
	var next atomic.Uint64
	withWriters(b, func(w int) func() {
		return func() {
			key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{'E'}, uint64(w)), next.Add(1))
			if err := db.Set(key, value, pebble.Sync); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRatio runs both in turns, window by window, so that what else the
// machine does meets them alike, and prints the median of the ratios.
func BenchmarkRatio(b *testing.B) {
	const window = 150 * time.Millisecond
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			j := openTest(b, b.TempDir(), Options{})
			db, err := pebble.Open(b.TempDir(), (&Journal{opt: Options{}.withDefaults()}).engineOptions(false))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			value := []byte(strings.Repeat("v", 300))
			if size := len(newAppender(b, j, "s-size").c.Facts[0].JSON); size < 290 || size > 320 {
				b.Fatalf("an event has %d bytes", size)
			}
			ours, bare, authors := make([]func(), writers), make([]func(), writers), make([]*appender, writers)
			for w := range writers {
				authors[w] = newAppender(b, j, chat.SessionID(fmt.Sprintf("s-%d", w)))
				ours[w] = func() { authors[w].step(b) }
				var seq uint64
				bare[w] = func() {
					seq++
					key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{'E'}, uint64(w)), seq)
					if err := db.Set(key, value, pebble.Sync); err != nil {
						b.Fatal(err)
					}
				}
			}
			rate := func(steps []func(), cpu *[]float64) float64 {
				var done atomic.Int64
				start, used := time.Now(), processor()
				defer func() { *cpu = append(*cpu, float64((processor()-used).Microseconds())/float64(done.Load())) }()
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
			var ratios, rates, cpuOurs, cpuBare []float64
			last := 5000.0
			for b.Loop() {
				for _, a := range authors {
					a.fill(int(3 * last * window.Seconds() / float64(writers)))
				}
				runtime.GC()
				var x, y float64
				if len(ratios)%2 == 0 { // neither is always the first
					x, y = rate(ours, &cpuOurs), rate(bare, &cpuBare)
				} else {
					y, x = rate(bare, &cpuBare), rate(ours, &cpuOurs)
				}
				last = max(x, 5000)
				ratios, rates = append(ratios, x/y), append(rates, x)
			}
			median := func(list []float64) float64 { slices.Sort(list); return list[len(list)/2] }
			b.ReportMetric(median(ratios), "of-pebble")
			b.ReportMetric(median(rates), "appends/s")
			b.ReportMetric(median(cpuOurs), "cpu-µs/append")
			b.ReportMetric(median(cpuBare), "cpu-µs/bare")
		})
	}
}

// processor is the time the process has spent on processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkApply applies frames of commits of as many sessions, as another node does. decode
// includes the time to read the commits from the frame.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 64, 256} {
		for _, decode := range []bool{false, true} {
			b.Run(fmt.Sprintf("commits=%d/decode=%t", size, decode), func(b *testing.B) {
				b.ReportAllocs()
				j := openTest(b, b.TempDir(), Options{})
				authors := make([]*appender, size)
				for i := range authors {
					authors[i] = newAppender(b, j, chat.SessionID(fmt.Sprint("s-", i)))
				}
				made := make([]Change, 0, size)
				data := make([][]byte, size)
				frames := 0
				for n := 0; n < b.N; n += size {
					b.StopTimer()
					made = made[:0]
					for i, a := range authors {
						a.fill(1)
						c := a.ready[0]
						a.ready = a.ready[1:]
						made = append(made, &CommitChange{Commit: &c})
						var err error
						if _, data[i], err = EncodeChange(data[i][:0], made[i]); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
					if decode {
						for i := range made {
							var err error
							if made[i], err = DecodeChange(changeCommit, data[i]); err != nil {
								b.Fatal(err)
							}
						}
					}
					frames++
					if refused, err := j.Apply(&Frame{Copy: frameNumber(frames), Changes: made}); err != nil || refused[0] != nil {
						b.Fatal(refused, err)
					}
				}
			})
		}
	}
}
