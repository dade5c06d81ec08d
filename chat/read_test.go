package chat_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// stored reads pages of at most three events of a log of n events.
func stored(n chat.Seq) func(chat.Range) ([]chat.Fact, bool, error) {
	return func(r chat.Range) (facts []chat.Fact, more bool, err error) {
		var seqs []chat.Seq
		for s := r.After + 1; s <= n && (r.Before == 0 || s < r.Before); s++ {
			seqs = append(seqs, s)
		}
		if r.Desc {
			slices.Reverse(seqs)
		}
		most := min(len(seqs), r.Limit, 3)
		for _, s := range seqs[:most] {
			facts = append(facts, chat.Fact{Seq: s})
		}
		return facts, most < len(seqs), nil
	}
}

func TestFactsReadsAllPages(t *testing.T) {
	for _, c := range []struct {
		r    chat.Range
		want []chat.Seq
	}{
		{chat.Range{}, []chat.Seq{1, 2, 3, 4, 5, 6, 7}},
		{chat.Range{After: 2, Before: 6}, []chat.Seq{3, 4, 5}},
		{chat.Range{Desc: true}, []chat.Seq{7, 6, 5, 4, 3, 2, 1}},
		{chat.Range{Desc: true, Before: 6, Limit: 4}, []chat.Seq{5, 4, 3, 2}},
		{chat.Range{Limit: 5}, []chat.Seq{1, 2, 3, 4, 5}},
		{chat.Range{Limit: 3}, []chat.Seq{1, 2, 3}},
		{chat.Range{After: 7}, nil},
	} {
		var got []chat.Seq
		for f, err := range chat.Facts(c.r, stored(7)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f.Seq)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.r, got, c.want)
		}
	}
}

func TestEventsEndsAfterAnError(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	for _, err := range chat.Events(chat.Facts(chat.Range{}, func(chat.Range) ([]chat.Fact, bool, error) { return nil, true, broken })) {
		if calls++; !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	if calls != 1 {
		t.Errorf("%d elements, want the error alone", calls)
	}
}
