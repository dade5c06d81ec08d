package model

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
)

// A model that is faster than the session waits, and what it says is written in as few pieces as possible.
func TestDeltasThatWaitAreJoinedAndBounded(t *testing.T) {
	u := newUnwritten()
	for _, d := range []llm.Delta{
		{Kind: llm.DeltaThinking, Text: "a"}, {Kind: llm.DeltaThinking, Text: "b"},
		{Kind: llm.DeltaText, Index: 1, Text: "c"}, {Kind: llm.DeltaText, Index: 1, Text: "d"},
		{Kind: llm.DeltaText, Index: 2, Text: "e"},
	} {
		if err := u.add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	want := []llm.Delta{{Kind: llm.DeltaThinking, Text: "ab"}, {Kind: llm.DeltaText, Index: 1, Text: "cd"}, {Kind: llm.DeltaText, Index: 2, Text: "e"}}
	if got := u.take(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	full := llm.Delta{Kind: llm.DeltaText, Text: strings.Repeat("x", maxUnwritten)}
	if err := u.add(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancelCause(t.Context())
	failed := errors.New("the write failed")
	end(failed)
	u.take()
	if err := errors.Join(u.add(t.Context(), full), u.add(ended, full)); !errors.Is(err, failed) {
		t.Errorf("a delta more than there is room for: %v", err)
	}
	added := make(chan error, 1)
	go func() { added <- u.add(t.Context(), llm.Delta{Kind: llm.DeltaText, Text: "y"}) }()
	u.take()
	if err := <-added; err != nil {
		t.Error(err)
	}
}
