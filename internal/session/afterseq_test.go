package session

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A draft that names the last event is refused when the session has gone on.
func TestAppendAfterAnOlderEventIsRefused(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	draft := func(after chat.Seq, key string) []chat.Draft {
		d := chat.NewDraft(chat.UserMessage{Text: "x"}).As(key)
		d.AfterSeq = after
		return []chat.Draft{d}
	}
	first, err := w.Append(ctx, ann, id, draft(1, "a"))
	if err != nil || first[0].Seq != 2 {
		t.Fatal(first, err)
	}
	for _, after := range []chat.Seq{1, 3, chat.MaxSeq} {
		_, err := w.Append(ctx, ann, id, draft(after, "b"))
		if chat.CodeOf(err) != chat.Conflict || chat.ReasonOf(err) != chat.SessionChanged || chat.Public(err).Details["last"] != chat.Seq(2) {
			t.Errorf("after %d: %v", after, err)
		}
	}
	// What was stored before is returned, also when the session has gone on.
	if again, err := w.Append(ctx, ann, id, draft(1, "a")); err != nil || again[0].ID != first[0].ID {
		t.Error(again, err)
	}
	// It is the last event before the whole append.
	two := append(draft(2, "c"), draft(2, "d")...)
	if events, err := w.Append(ctx, ann, id, two); err != nil || events[1].Seq != 4 {
		t.Error(events, err)
	}
	w.wantStory(id, "session.started", "user.message x", "user.message x", "user.message x")
}

// Of many appends after the same event one is stored, also when they share a commit.
func TestOneAppendFollowsAnEvent(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	for round := range chat.Seq(5) {
		var wg sync.WaitGroup
		var stored atomic.Int64
		for range 20 {
			wg.Go(func() {
				d := chat.NewDraft(chat.UserMessage{Text: "x"})
				d.AfterSeq = 1 + round
				switch _, err := w.Append(ctx, ann, id, []chat.Draft{d}); {
				case err == nil:
					stored.Add(1)
				case chat.ReasonOf(err) != chat.SessionChanged:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := stored.Load(); n != 1 {
			t.Errorf("%d appends were stored", n)
		}
	}
}
