package grant

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A log is read once; an event whose handling failed is handled again, and none is left out.
func TestBackfillHandlesEachEventOnce(t *testing.T) {
	s := newFixture(t)
	s.session("s1")
	var got []chat.Seq
	var fail error
	f := backfill{sessions: s.Sessions, typ: chat.AgentStatus{}.Type(), handle: func(_ context.Context, e *chat.Event) error {
		if fail == nil {
			got = append(got, e.Seq)
		}
		return fail
	}}
	say := func(bodies ...chat.Body) {
		t.Helper()
		var drafts []chat.Draft
		for _, b := range bodies {
			drafts = append(drafts, chat.NewDraft(b))
		}
		if _, err := s.Sessions.Append(t.Context(), chat.Trusted, "s1", drafts); err != nil {
			t.Fatal(err)
		}
	}
	want := func(seqs ...chat.Seq) {
		t.Helper()
		for range 2 {
			if err := f.run(t.Context(), "s1"); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, seqs) {
			t.Fatal(got)
		}
	}
	want()
	say(chat.AgentStatus{Message: "a"}, chat.AgentText{Text: "b"}, chat.AgentText{Text: "c"})
	want(2)
	say(chat.AgentStatus{Message: "d"})
	fail = errors.New("not now")
	if err := f.run(t.Context(), "s1"); !errors.Is(err, fail) {
		t.Fatal(err)
	}
	fail = nil
	say(chat.AgentStatus{Message: "e"})
	want(2, 5, 6)
	if err := f.run(t.Context(), "none"); chat.CodeOf(err) != chat.NotFound {
		t.Error(err)
	}
}
