package hub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestFirstBatchHasTheStartingCursor(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"), w.message("two"), w.message("three"))
		x := watch(t, h, "s", at(1), &lines{})
		if first := x.batches[0]; first.Cursor.String() != "1" || first.Last != 3 {
			t.Errorf("first batch: cursor %s, last %d", first.Cursor, first.Last)
		}
		if end := x.batches[len(x.batches)-1]; !end.Live || end.Cursor.String() != "3" {
			t.Errorf("last batch: %+v", end)
		}
		if x.ended {
			t.Error("the watch ended")
		}
	})
}

func TestWatchWithoutCursorBeginsWithOpenBlocks(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"), w.piece("b1", "Hel"), w.piece("b2", "x"), w.piece("b1", "lo"))
		x := watch(t, h, "s", Start{}, &lines{})
		want := "p\t1~b1.5\t1048640\tb1\t0\t\"Hello\"\np\t1~b1.5~b2.1\t1048624\tb2\t0\t\"x\"\n"
		if x.bytes != want {
			t.Errorf("got %q, want %q", x.bytes, want)
		}
		w.publish(w.finish("b1"))
		synctest.Wait()
		if err := x.c.same(w); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(strings.TrimPrefix(x.bytes, want), "e\t2~b2.1\t") {
			t.Errorf("after the event: %q", x.bytes)
		}
	})
}

func TestResumeInsideABlock(t *testing.T) {
	for name, tc := range map[string]struct {
		have, offset int
	}{
		"at a boundary":      {3, 3},
		"inside a piece":     {1, 1},
		"inside a character": {5, 4},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeClock(t, func(t *testing.T) {
				_, h, w := setup(Options{})
				w.publish(w.message("one"), w.piece("b1", "Hel"), w.piece("b1", "lö"), w.piece("b1", " und mehr"))
				var got []Entry
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for b, err := range h.Watch(ctx, "s", at(1, chat.Mark{Block: "b1", Bytes: tc.have}), nil) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, b.Entries...)
					if b.Live {
						break
					}
				}
				if len(got) != 1 || got[0].Piece.Offset != tc.offset || got[0].Piece.Text != "Hellö und mehr"[tc.offset:] {
					t.Errorf("got %+v", got[0].Piece)
				}
				if got[0].Cursor.String() != "1~b1.15" {
					t.Errorf("cursor %s", got[0].Cursor)
				}
			})
		})
	}
}

// After a power cut the server may have less of a block than a reader has seen.
func TestReaderAheadOfABlockSkipsWhatItHas(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"), w.piece("b1", "He"))
		var texts []string
		var cursors []string
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for b, err := range h.Watch(ctx, "s", at(1, chat.Mark{Block: "b1", Bytes: 4}, chat.Mark{Block: "lost", Bytes: 2}), nil) {
				if err != nil {
					t.Error(err)
				}
				for _, e := range b.Entries {
					cursors = append(cursors, e.Cursor.String())
					if e.Piece != nil {
						texts = append(texts, e.Piece.Text)
					}
				}
			}
		}()
		synctest.Wait()
		for _, e := range []Entry{w.piece("b1", "l"), w.piece("b2", "new"), w.piece("b1", "lo"), w.piece("b1", "!"), w.piece("lost", "abc")} {
			w.publish(e)
			synctest.Wait()
		}
		w.publish(w.finish("lost"))
		w.publish(w.piece("b1", "?"))
		synctest.Wait()
		cancel()
		if got := strings.Join(texts, "|"); got != "new|o|!|c|?" {
			t.Errorf("got %s", got)
		}
		want := "1~b1.4~lost.2~b2.3 1~b1.5~lost.2~b2.3 1~b1.6~lost.2~b2.3 1~b1.6~lost.3~b2.3 2~b1.6~b2.3 2~b1.7~b2.3"
		if got := strings.Join(cursors, " "); got != want {
			t.Errorf("cursors\n%s, want\n%s", got, want)
		}
	})
}

func TestCursorBeyondTheLogIsGone(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		x := watch(t, h, "s", at(2), &lines{})
		if chat.CodeOf(x.err) != chat.Gone || !x.ended || len(x.batches) != 0 {
			t.Errorf("got %v, %d batches", x.err, len(x.batches))
		}
	})
}

// Somebody reads the log, sees an event that is published only a moment later,
// and watches from there.
func TestCursorOfAnEventThatIsNotPublishedYetWaits(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		watch(t, h, "s", at(1), &lines{}) // makes the topic warm
		two, three := w.message("two"), w.message("three")
		x := watch(t, h, "s", at(2), &lines{})
		w.publish(two)
		w.publish(three)
		synctest.Wait()
		if x.err != nil || x.c.seq != 3 || strings.Count(x.bytes, "\n") != 1 {
			t.Errorf("got %q, %v", x.bytes, x.err)
		}
	})
}

// The log already has the end of a block, and more, when a reader comes; all of
// it is published only afterwards.
func TestBlockThatIsFinishedButNotPublished(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		h.first = 1
		w.publish(w.message("one"))
		w.publish(w.piece("b1", "abc"))
		w.publish(w.message("two"))
		late := []Entry{w.piece("b1", "def"), w.piece("b2", "stays"), w.finish("b1"), w.message("three")}
		x := watch(t, h, "s", at(0), &lines{})
		if x.c.seq != 4 || len(x.c.text) != 0 {
			t.Errorf("at %d with %v", x.c.seq, x.c.text)
		}
		for _, e := range late {
			w.publish(e)
			synctest.Wait()
		}
		if b, _ := blockOf(h, "s", "b2"); b.Text != "stays" {
			t.Errorf("b2 is %q", b.Text)
		}
		if err := x.c.same(w); err != nil {
			t.Error(err)
		}
	})
}

func TestUnknownSession(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, _ := setup(Options{})
		x := watch(t, h, "nobody", Start{}, &lines{})
		if chat.CodeOf(x.err) != chat.NotFound || len(h.topics) != 0 {
			t.Errorf("got %v; %d topics", x.err, len(h.topics))
		}
	})
}

func TestDropEndsReaders(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"), w.piece("b1", "secret"))
		x := watch(t, h, "s", at(0), &lines{})
		gone := chat.Errorf(chat.Gone, "erased")
		h.Drop("s", gone)
		synctest.Wait()
		if !errors.Is(x.err, gone) || !x.ended || len(h.Blocks("s")) != 0 || len(h.topics) != 0 {
			t.Errorf("got %v, blocks %v, %d topics", x.err, h.Blocks("s"), len(h.topics))
		}
	})
}

func TestCloseErrorHasTheCursor(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"), w.piece("b1", "abc"))
		x := watch(t, h, "s", at(0), &lines{})
		h.Close(errors.New("going home"))
		late := watch(t, h, "s", at(1), &lines{})
		for _, tc := range []struct {
			err    error
			cursor string
		}{{x.err, "1~b1.3"}, {late.err, "1"}} {
			var e *chat.Error
			if !errors.As(tc.err, &e) || e.Code != chat.Unavailable || e.Details["cursor"] != tc.cursor {
				t.Errorf("got %+v", tc.err)
			}
		}
	})
}

func TestEndOfContextEndsTheLoopQuietly(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{Idle: -1})
		w.publish(w.message("one"))
		x := watch(t, h, "s", at(0), &lines{})
		x.cancel()
		synctest.Wait()
		if x.err != nil || !x.ended || len(h.topics) != 0 {
			t.Errorf("err %v, ended %t, %d topics", x.err, x.ended, len(h.topics))
		}
	})
}

// A reader that was told of the silence several times waits like any other: it
// gets what comes next, and when it has gone nobody waits for it.
func TestIdleBatchAfterSilence(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		from := at(1)
		from.Idle = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		said := make(chan Batch, 100)
		go func() {
			for b, err := range h.Watch(ctx, "s", from, nil) {
				if err != nil {
					t.Error(err)
				}
				said <- b
			}
		}()
		time.Sleep(3500 * time.Millisecond) // the bubble's clock
		<-said                              // hello
		<-said                              // live
		for range 3 {
			if b := <-said; !b.Idle || b.Cursor.Seq != 1 {
				t.Errorf("got %+v", b)
			}
		}
		topic := h.topics["s"]
		topic.mu.Lock()
		if n := len(topic.parked); n != 1 || len(said) > 0 {
			t.Errorf("one reader waits %d times; %d batches too many", n, len(said))
		}
		topic.mu.Unlock()
		w.publish(w.message("two"))
		if b := <-said; b.Idle || len(b.Entries) != 1 || b.Cursor.Seq != 2 {
			t.Errorf("got %+v", b)
		}
		time.Sleep(1500 * time.Millisecond)
		cancel()
		synctest.Wait()
		w.publish(w.message("three"))
		w.publish(w.message("four"))
	})
}

func TestBlocksSurviveARestart(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.message("one")
		w.piece("b1", "Hel")
		h.Restore("s", []chat.Block{{ID: "b1", Kind: chat.TextBlock, Text: "Hel", Ends: []chat.End{{Bytes: 1, At: 7}, {Bytes: 3, At: 9}}}})
		if b, ok := blockOf(h, "s", "b1"); !ok || b.Text != "Hel" || len(b.Ends) != 2 {
			t.Errorf("got %+v", b)
		}
		x := watch(t, h, "s", at(0), &lines{})
		w.publish(w.piece("b1", "lo"), w.finish("b1"))
		synctest.Wait()
		if err := x.c.same(w); err != nil {
			t.Error(err)
		}
		if _, ok := blockOf(h, "s", "b1"); ok {
			t.Error("the block is still open")
		}
	})
}

func TestPiecesThatDoNotContinue(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		x := watch(t, h, "s", at(1), &lines{})
		put := func(offset int, text string) {
			w.at += core.AtStep
			w.publish(Entry{At: w.at, Piece: &chat.Preview{Block: "b1", Offset: offset, End: offset + len(text), Text: text}})
			synctest.Wait()
		}
		put(3, "gap")
		put(0, "abc")
		put(0, "ab")    // a repeat
		put(1, "bcdef") // overlaps
		put(9, "gap")
		put(6, strings.Repeat("x", chat.MaxBlock)) // too much
		if b, _ := blockOf(h, "s", "b1"); b.Text != "abcdef" || x.c.text["b1"] != "abcdef" {
			t.Errorf("the block is %q, the reader has %q", b.Text, x.c.text["b1"])
		}
		if n := h.count.gaps.Load(); n != 3 {
			t.Errorf("%d refused", n)
		}
	})
}

// A publisher that leaves events out is a fault, but no reader may see a gap.
func TestEventsThatWereNotPublishedComeFromTheLog(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		x := watch(t, h, "s", at(0), &lines{})
		w.message("two")
		w.publish(w.message("three"))
		w.publish(w.message("four"))
		synctest.Wait()
		if err := x.c.same(w); err != nil {
			t.Error(err)
		}
	})
}

func TestDamagedLogIsReported(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		log, h, w := setup(Options{Tail: 2, TailBytes: 1})
		for range 10 {
			w.publish(w.message("x"))
		}
		watch(t, h, "s", at(10), &lines{})
		log.facts["s"] = append(log.facts["s"][:3], log.facts["s"][4:]...)
		x := watch(t, h, "s", at(2), &lines{})
		if x.err == nil || !strings.Contains(x.err.Error(), "event 4 is not in the log") {
			t.Errorf("got %v", x.err)
		}
	})
}

func TestMetrics(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		watch(t, h, "s", at(0), &lines{})
		w.publish(w.message("two"))
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(h.Collectors()...)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		if got["parley_hub_readers"] != 1 || got["parley_hub_sessions"] != 1 || got["parley_hub_published_total"] != 1 {
			t.Errorf("got %v", got)
		}
	})
}

func TestEntryOf(t *testing.T) {
	for _, tc := range []struct{ json, typ, line, block string }{
		{`{"session_id":"s","sequence":7,"timestamp":"2026-11-15T10:00:00.123456Z","type":"agent.text","payload":{"block":"b7","text":"a \"block\": x"}}`, "agent.text", "", "b7"},
		{`{"session_id":"s","sequence":7,"timestamp":"2026-11-15T10:00:00.123456Z","type":"agent.thinking","workstream_id":"w","payload":{"text":"x","block":"b8"}}`, "agent.thinking", "w", "b8"},
		{`{"session_id":"s","sequence":7,"timestamp":"2026-11-15T10:00:00.123456Z","type":"user.message","payload":{"block":"no","text":"x"}}`, "user.message", "", ""},
		{`{"session_id":"s","sequence":7,"type":"agent.text","payload":{"block":"b9","text":"x"},"timestamp":"2026-11-15T10:00:00.123456Z"}`, "agent.text", "", "b9"},
	} {
		e, err := entryOf(chat.Fact{Seq: 7, JSON: []byte(tc.json)})
		if err != nil {
			t.Errorf("%s: %v", tc.json, err)
			continue
		}
		if e.Label.Type != tc.typ || e.Label.Workstream != tc.line || string(e.Block) != tc.block || e.At.String() != "2026-11-15T10:00:00.123456Z" {
			t.Errorf("%s: %+v", tc.json, e)
		}
	}
	if _, err := entryOf(chat.Fact{Seq: 7, JSON: []byte(`{"sequence":7}`)}); err == nil {
		t.Error("nonsense was taken for an event")
	}
}
