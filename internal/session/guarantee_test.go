package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// Several drafts are one commit: a refused draft or a failed write leaves none of them, also after a restart.
func TestAppendStoresAllDraftsOrNone(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	messages := func() (drafts []chat.Draft) {
		for i := range 3 {
			drafts = append(drafts, chat.NewDraft(chat.UserMessage{Text: fmt.Sprint(i)}).As(fmt.Sprint("k", i)))
		}
		return drafts
	}
	wantNone := func(why string) {
		t.Helper()
		for range 2 {
			if n := len(w.events(id)); n != 1 {
				t.Fatalf("%s: the log has %d events", why, n)
			}
			w.restart()
		}
	}
	for i := range 3 {
		drafts := messages()
		drafts[i] = chat.NewDraft(chat.UserInputResponse{RequestID: "none", Text: "x"})
		_, err := w.Append(ctx, ann, id, drafts)
		w.wantCode(err, chat.NotFound)
		wantNone(fmt.Sprintf("draft %d is refused", i))
	}
	w.log.before = func(*core.Commit) error { return chat.Errorf(chat.Unavailable, "the disk is full") }
	_, err := w.Append(ctx, ann, id, messages())
	w.wantCode(err, chat.Unavailable)
	wantNone("the write fails")

	before := w.log.commits.Load()
	stored, err := w.Append(ctx, ann, id, messages())
	if err != nil || len(stored) != 3 {
		t.Fatal(stored, err)
	}
	if n := w.log.commits.Load() - before; n != 1 {
		t.Fatalf("the drafts are in %d commits", n)
	}
	w.restart()
	if evs := w.events(id); len(evs) != 4 || evs[3].ID != stored[2].ID {
		t.Fatalf("after a restart the log has %d events", len(evs))
	}
}

// Positions rise while the clock stands still, after it was set back, and over restarts.
func TestPositionsRiseOverEventsAndPreviews(t *testing.T) {
	w := newTestStore(t, Options{})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.now.Store(now.UnixMicro())
	id := w.begin("s")
	w.say(id, "a")
	ref, last, text := w.turn(id), w.state(id).LastAt, ""
	rises := func(what string, at chat.At) {
		t.Helper()
		if at <= last {
			t.Fatalf("%s is at %s after %s", what, at, last)
		}
		last = at
	}
	event := func() {
		t.Helper()
		evs, err := w.Append(ctx, bot, id, draft(ref, chat.AgentStatus{Message: "x"}))
		if err != nil {
			t.Fatal(err)
		}
		rises("an event", evs[0].At)
	}
	preview := func() {
		t.Helper()
		w.show(ref, "b", len(text), "ab")
		text += "ab"
		b, _ := blockOf(w.hub, id, "b")
		rises("a preview", b.Ends[len(b.Ends)-1].At)
	}
	for _, move := range []time.Duration{0, time.Second, -time.Hour} {
		now = now.Add(move)
		w.now.Store(now.UnixMicro())
		for _, order := range [][]func(){{event, preview}, {preview, event}, {preview, preview}, {event, event}} {
			order[0]()
			w.restart()
			order[1]()
		}
	}
	r := newReader(chat.Cursor{})
	r.byPos = true
	stop := w.follow(r, id)
	r.until(func() bool { return len(r.ats) > 0 && r.ats[len(r.ats)-1] == last })
	stop()
	if !slices.IsSorted(r.ats) || len(slices.Compact(slices.Clone(r.ats))) != len(r.ats) {
		t.Fatalf("a reader received %v", r.ats)
	}
}

// An event of a type that the server does not know is stored and sent with the payload that was appended.
func TestUnknownEventTypesAreStoredAndSent(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	const kind, payload = "shop.order.paid_2", `{"z":[1,{"deep":null}],"a":"<é&>","large":12345678901234567890.5e400}`
	check := func(r *reader) {
		t.Helper()
		sent, item := r.log[1], r.fold.Items[len(r.fold.Items)-1]
		if !strings.Contains(sent, `"type":"`+kind+`"`) || !strings.Contains(sent, `"payload":`+payload) {
			t.Errorf("a reader received %s", sent)
		}
		if item.Kind != chat.ItemCustom || item.Custom.Type != kind || string(item.Custom.Payload) != payload {
			t.Errorf("the transcript has %+v", item)
		}
	}
	live := newReader(chat.Cursor{})
	stop := w.follow(live, id)
	live.until(func() bool { return len(live.log) == 1 })
	if _, err := w.Append(ctx, ann, id, []chat.Draft{{Type: kind, Payload: json.RawMessage(payload), ClientID: "k"}}); err != nil {
		t.Fatal(err)
	}
	live.until(func() bool { return len(live.log) == 2 })
	stop()
	check(live)

	w.restart()
	if b, ok := w.events(id)[1].Body.(chat.Unknown); !ok || b.Name != kind || string(b.Payload) != payload {
		t.Errorf("the log has %+v", b)
	}
	late := newReader(chat.Cursor{})
	stop = w.follow(late, id)
	late.until(func() bool { return len(late.log) == 2 })
	stop()
	check(late)
	if !slices.Equal(late.log, live.log) {
		t.Errorf("after a restart a reader received %s", late.log)
	}
}

// follow runs a reader until stop is called.
func (w *testStore) follow(r *reader, id chat.SessionID) (stop func()) {
	reading, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.run(reading, w.Sessions, ann, id) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Fatal(err)
		}
	}
}
