package hub

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// frames is an encoding as cheap as a real one: the stored bytes in a frame.
type frames struct{ calls atomic.Int64 }

func (f *frames) Name() string { return "frames" }

func (f *frames) AppendEvent(dst []byte, e *Entry) []byte {
	f.calls.Add(1)
	dst = append(dst, "event: event\nid: "...)
	dst = e.Cursor.Append(dst)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, e.Fact.JSON...)
	return append(dst, '\n', '\n')
}

func (f *frames) AppendPiece(dst []byte, e *Entry) []byte {
	f.calls.Add(1)
	dst = append(dst, "event: preview\nid: "...)
	dst = e.Cursor.Append(dst)
	dst = append(dst, "\ndata: "...)
	dst = e.Piece.AppendJSON(dst)
	return append(dst, '\n', '\n')
}

// startReaders starts n readers that count; stop ends them.
func watchers(b *testing.B, h *Hub, id chat.SessionID, from Start, enc Encoding, n int) (bytes, events *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg, ready sync.WaitGroup
	bytes, events = new(atomic.Int64), new(atomic.Int64)
	ready.Add(n)
	for range n {
		wg.Go(func() {
			begun, at := false, chat.Seq(0)
			for batch, err := range h.Watch(ctx, id, from, enc) {
				if err != nil {
					b.Error(err)
				}
				bytes.Add(int64(len(batch.Bytes)))
				if at > 0 {
					events.Add(int64(batch.Cursor.Seq - at))
				}
				at = batch.Cursor.Seq
				if batch.Live && !begun {
					begun = true
					ready.Done()
				}
			}
		})
	}
	ready.Wait()
	return bytes, events, func() { cancel(); wg.Wait() }
}

func payload() map[string]any { return map[string]any{"text": fmt.Sprintf("%0240d", 1)} }

// BenchmarkPublish is the time from Publish until the last of n readers has its
// bytes; with ahead > 1 the publisher may be that many events ahead, as a store
// with group commit is, and readers take several at once.
func BenchmarkPublish(b *testing.B) {
	for _, ahead := range []int{1, 256} {
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("ahead=%d/readers=%d", ahead, n), func(b *testing.B) {
				log, h, w := setup(Options{})
				w.publish(w.message("first"))
				enc := &frames{}
				_, events, stop := watchers(b, h, "s", Start{}, enc, n)
				defer stop()
				entries := make([]Entry, b.N)
				for i := range entries {
					entries[i] = w.fact("user.message", payload())
				}
				reads := log.reads.Load()
				b.ReportAllocs()
				b.ResetTimer()
				for i := range entries {
					h.Publish("s", entries[i:i+1])
					for events.Load() < int64(i+1-ahead+1)*int64(n) {
						runtime.Gosched()
					}
				}
				for events.Load() < int64(b.N)*int64(n) {
					runtime.Gosched()
				}
				b.StopTimer()
				b.ReportMetric(float64(enc.calls.Load())/float64(b.N), "encodings/op")
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
				b.ReportMetric(float64(log.reads.Load()-reads), "logreads")
			})
		}
	}
}

// BenchmarkPieces is a token at a time into a block, one reader.
func BenchmarkPieces(b *testing.B) {
	_, h, w := setup(Options{})
	w.publish(w.message("first"))
	_, _, stop := watchers(b, h, "s", Start{}, &frames{}, 1)
	defer stop()
	b.ReportAllocs()
	offset, block := 0, 0
	for i := 0; b.Loop(); i++ {
		if offset+5 > chat.MaxBlock {
			offset, block = 0, block+1
		}
		p := &chat.Preview{Block: chat.BlockID(fmt.Sprint("b", block)), Offset: offset, End: offset + 5, Text: "token", Kind: chat.TextBlock}
		offset += 5
		h.Publish("s", []Entry{{At: chat.At(1<<30 + i*16), Piece: p}})
	}
}

// BenchmarkResumeStorm is 5000 readers that lack 500 events each.
func BenchmarkResumeStorm(b *testing.B) {
	log, h, w := setup(Options{})
	for range 600 {
		w.publish(w.fact("user.message", payload()))
	}
	const readers = 5000
	b.ReportAllocs()
	for b.Loop() {
		enc := &frames{}
		before := log.reads.Load()
		bytes, _, stop := watchers(b, h, "s", Start{Cursor: &chat.Cursor{Seq: 100}}, enc, readers)
		b.ReportMetric(float64(bytes.Load())/readers, "bytes/reader")
		b.ReportMetric(float64(enc.calls.Load()), "encodings")
		b.ReportMetric(float64(log.reads.Load()-before), "logreads")
		stop()
	}
}

// BenchmarkIdleReader measures what a reader that waits costs: with its
// goroutine, and the hub's part alone.
func BenchmarkIdleReader(b *testing.B) {
	_, h, w := setup(Options{})
	w.publish(w.message("first"))
	const readers = 10000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, _, stop := watchers(b, h, "s", Start{}, &frames{}, readers)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/readers, "heap-B/reader")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/readers, "stack-B/reader")
		stop()
	}
}
