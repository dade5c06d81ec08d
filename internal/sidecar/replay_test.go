package sidecar

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/internal/dialect/x1"
)

// parse does not panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"type":"a"}`))
	f.Add([]byte(`[{"type":"a","payload":{}},{"type":"heartbeat"}]`))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = parse("7", data) })
}

// Each event is stored once and in order, however often the sidecar reconnects, as long as
// the agent's buffer holds it.
func TestReplayAlignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.IntRange(1, 12).Draw(t, "memory")
		var history, stored []x1.Digest
		word := func() x1.Digest { // few words, so that much is repeated
			return x1.Digest{byte(rapid.IntRange(0, 2).Draw(t, "word"))}
		}
		for range rapid.IntRange(1, 6).Draw(t, "connections") {
			// While it is not connected it sends no more than it can repeat.
			for range rapid.IntRange(0, max(0, memory-1)).Draw(t, "before") {
				if len(history)-len(stored) < memory {
					history = append(history, word())
				}
			}
			tp := replayAligner{stored: slices.Clone(stored), replay: memory}
			feed := func(list []agentEvent) {
				for _, s := range list {
					if s.index != len(stored) {
						t.Fatalf("index %d after %d", s.index, len(stored))
					}
					stored = append(stored, s.digest)
				}
			}
			for _, d := range history[max(0, len(history)-memory):] {
				feed(tp.feed(agentEvent{digest: d}))
			}
			if len(history) <= memory { // it repeats all: no doubt is possible
				if !slices.Equal(stored, history) {
					t.Fatalf("stored %v of %v", stored, history)
				}
			}
			feed(tp.endReplay())
			for range rapid.IntRange(0, 3).Draw(t, "live") {
				if len(history) > memory {
					break
				}
				d := word()
				history = append(history, d)
				feed(tp.feed(agentEvent{digest: d}))
			}
			if len(history) > memory {
				return // repeated words can be read in two ways then
			}
			if !slices.Equal(stored, history) {
				t.Fatalf("stored %v of %v", stored, history)
			}
		}
	})
}

// If all events differ, also a short buffer is recognised.
func TestReplayAlignmentWithAShortBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.IntRange(1, 10).Draw(t, "memory")
		var history, stored []x1.Digest
		say := func() { history = append(history, x1.Digest{byte(len(history)), byte(len(history) >> 8)}) }
		for range rapid.IntRange(1, 8).Draw(t, "connections") {
			for range rapid.IntRange(0, 10).Draw(t, "before") {
				if len(history)-len(stored) < memory {
					say()
				}
			}
			tp := replayAligner{stored: slices.Clone(stored), replay: memory}
			for _, d := range history[max(0, len(history)-memory):] {
				for _, s := range tp.feed(agentEvent{digest: d}) {
					stored = append(stored, s.digest)
				}
			}
			for _, s := range tp.endReplay() {
				stored = append(stored, s.digest)
			}
			for range rapid.IntRange(0, 3).Draw(t, "live") {
				say()
				for _, s := range tp.feed(agentEvent{digest: history[len(history)-1]}) {
					stored = append(stored, s.digest)
				}
			}
			if !slices.Equal(stored, history) {
				t.Fatalf("stored %v of %v", stored, history)
			}
		}
	})
}
