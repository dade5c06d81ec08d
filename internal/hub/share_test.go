package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/parley-hq/parley/chat"
)

func TestEncodedOnceForAllReaders(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		enc := &lines{}
		var all []*watching
		for range 50 {
			all = append(all, watch(t, h, "s", at(1), enc))
		}
		for i := range 20 {
			w.publish(w.message(fmt.Sprint(i)), w.piece("b1", "x"))
			synctest.Wait()
		}
		if e, p := enc.events.Load(), enc.pieces.Load(); e != 20 || p != 20 {
			t.Errorf("%d events and %d pieces were encoded, want 20 and 20", e, p)
		}
		for _, x := range all {
			if err := x.c.same(w); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestCatchUpIsSharedAndReadOnce(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		log, h, w := setup(Options{})
		for i := range 900 {
			w.publish(w.message(fmt.Sprint(i)))
		}
		enc := &lines{}
		where := map[*byte]int{}
		for i := range 100 {
			x := newClient(chat.Seq(300 + i%3))
			ctx, cancel := context.WithCancel(t.Context())
			for b, err := range h.Watch(ctx, "s", at(x.seq), enc) {
				if err != nil {
					t.Fatal(err)
				}
				if len(b.Bytes) > 0 {
					where[unsafe.SliceData(b.Bytes)]++
				}
				if err := x.read(b.Bytes); err != nil {
					t.Fatal(err)
				}
				if b.Live {
					break
				}
			}
			cancel()
			if x.seq != 900 {
				t.Fatalf("ended at %d", x.seq)
			}
			if i == 0 {
				watch(t, h, "s", at(900), enc) // keeps the encoding's bytes alive
			}
		}
		// The first reader left before the one that stays came: two rounds.
		if n := enc.events.Load(); n > 2*700 {
			t.Errorf("%d events were encoded", n)
		}
		if n := log.reads.Load(); n != 2 {
			t.Errorf("the log was read %d times", n)
		}
		if len(where) > 20 {
			t.Errorf("bytes in %d places", len(where))
		}
	})
}

// Bytes that several readers share stay as they are, however much comes after them.
func TestSharedBytesNeverChange(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{Tail: 100})
		w.publish(w.message("one"))
		watch(t, h, "s", at(1), &lines{}) // shares the bytes
		type held struct {
			bytes []byte
			copy  string
		}
		var kept []held
		go func() {
			for b, err := range h.Watch(t.Context(), "s", at(1), &lines{}) {
				if err != nil {
					t.Error(err)
				}
				kept = append(kept, held{b.Bytes, string(b.Bytes)})
			}
		}()
		synctest.Wait()
		for i := range 300 {
			size := i % 50
			if i%40 == 0 {
				size = 100_000 // gets a segment of its own
			}
			w.publish(w.message(strings.Repeat("x", size)))
			synctest.Wait()
		}
		if len(kept) < 300 {
			t.Fatalf("%d batches", len(kept))
		}
		for i, k := range kept {
			if string(k.bytes) != k.copy {
				t.Fatalf("batch %d changed", i)
			}
		}
	})
}

func TestSlowReaderContinuesFromTheLog(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{Tail: 16})
		w.publish(w.message("one"))
		fast := watch(t, h, "s", at(0), &lines{})
		hold, got := make(chan struct{}), newClient(0)
		go func() {
			for b, err := range h.Watch(t.Context(), "s", at(0), &lines{}) {
				if err != nil {
					t.Error(err)
				}
				if err := got.read(b.Bytes); err != nil {
					t.Error(err)
				}
				if b.Live {
					<-hold
				}
			}
		}()
		synctest.Wait()
		w.publish(w.piece("b1", "Hello "))
		synctest.Wait()
		for i := range 500 {
			w.publish(w.message(fmt.Sprint(i)), w.piece("b1", "x"))
			synctest.Wait()
			if fast.c.seq != w.seq {
				t.Fatalf("the fast reader is at %d of %d", fast.c.seq, w.seq)
			}
		}
		topic := h.topics["s"]
		if n := len(topic.live.ents); n > 64 {
			t.Errorf("%d entries are kept for the slow reader", n)
		}
		close(hold)
		synctest.Wait()
		if err := got.same(w); err != nil {
			t.Error(err)
		}
		if h.count.behind.Load() == 0 {
			t.Error("the slow reader did not fall behind")
		}
	})
}

func TestIdleTailsAreBounded(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		log, h, _ := setup(Options{Idle: 3})
		for i := range 10 {
			w := &writer{id: chat.SessionID(fmt.Sprint("s", i)), log: log, hub: h, at: 1 << 20}
			w.publish(w.message("one"))
			x := watch(t, h, w.id, at(0), &lines{})
			x.cancel()
			synctest.Wait()
		}
		if len(h.topics) != 3 || h.idle.Len() != 3 {
			t.Errorf("%d topics, %d idle", len(h.topics), h.idle.Len())
		}
		reads := log.reads.Load()
		watch(t, h, "s9", at(0), &lines{})
		if log.reads.Load() != reads || h.idle.Len() != 2 {
			t.Errorf("the tail was read again; %d idle", h.idle.Len())
		}
	})
}

// Everything at once, with real goroutines: run with -race.
func TestManyReadersUnderLoad(t *testing.T) {
	const sessions, readers, steps = 3, 8, 400
	log := newLog()
	h := New(log, Options{Tail: 20, Idle: 1, PageBytes: 2000})
	encodings := []Encoding{&lines{}, &packedLines{lines{name: "/packed"}}, nil}
	var all sync.WaitGroup
	for s := range sessions {
		w := &writer{id: chat.SessionID(fmt.Sprint("s", s)), log: log, hub: h, at: 1 << 20}
		w.publish(w.message("first"))
		written := make(chan struct{}) // closed when w is at rest
		all.Go(func() {
			defer close(written)
			rnd := rand.New(rand.NewPCG(1, uint64(s)))
			for i := range steps {
				id := chat.BlockID(fmt.Sprint("b", i/20))
				batch := []Entry{w.piece(id, "ab")}
				if i%20 == 19 {
					batch = append(batch, w.finish(id))
				}
				if rnd.IntN(3) == 0 {
					batch = append(batch, w.message("x"))
				}
				w.publish(batch...)
			}
			w.piece("open", "never finished")
			w.publish(Entry{At: w.at, Piece: &chat.Preview{Block: "open", End: 14, Text: "never finished", Kind: chat.TextBlock}})
			w.publish(w.message("last"))
		})
		for n := range readers {
			all.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(n), uint64(s)))
				x := &checkedReader{enc: encodings[n%len(encodings)], c: newClient(0)}
				if err := follow(h, w, x, rnd, written); err != nil {
					t.Errorf("session %d, reader %d: %v", s, n, err)
				}
			})
		}
	}
	all.Wait()
	if n := h.count.readers.Load(); n != 0 {
		t.Errorf("%d readers are left", n)
	}
}

// follow watches until all has been read, breaking off now and then.
func follow(h *Hub, w *writer, x *checkedReader, rnd *rand.Rand, written <-chan struct{}) error {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		for b, err := range h.Watch(ctx, w.id, Start{Cursor: x.c.resume()}, x.enc) {
			if err != nil {
				cancel()
				return err
			}
			broke, err := x.take(b, func(n int) int { return n - rnd.IntN(n+1)*(rnd.IntN(8)/7) })
			if err != nil {
				cancel()
				return err
			}
			if broke || rnd.IntN(20) == 0 {
				break
			}
			if b.Live {
				select {
				case <-written:
					if x.c.seq == w.seq {
						cancel()
						return x.c.same(w)
					}
				default:
				}
			}
		}
		cancel()
		select {
		case <-written:
			if x.c.seq == w.seq && x.c.same(w) == nil {
				return nil
			}
		default:
		}
	}
}
