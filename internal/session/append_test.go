package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestWaitingDraftsShareOneCommit(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.log.before = func(*core.Commit) error {
		once.Do(func() { close(entered); <-release })
		return nil
	}
	before := w.log.commits.Load()
	var wg sync.WaitGroup
	wg.Go(func() { w.say(id, "first") })
	<-entered
	const n = 50
	for i := range n {
		wait, err := w.AppendLater(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: fmt.Sprint(i)})})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if evs, err := wait(); err != nil || evs[0].Seq != chat.Seq(i+3) {
				t.Errorf("draft %d became %v: %v", i, evs, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if got := w.log.commits.Load() - before; got != 2 {
		t.Fatalf("%d commits for one draft and %d that waited", got, n)
	}
	w.events(id)
}

func TestConcurrentWritersShareOneOrder(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "go")
	ref := w.turn(id)
	r := newReader(chat.Cursor{})
	r.byPos = true
	done := make(chan error, 1)
	go func() { done <- r.run(t.Context(), w.Sessions, ann, id) }()
	const writers, each = 8, 40
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			block := chat.BlockID(fmt.Sprint("b", i))
			text := ""
			for k := range each {
				if i%2 == 0 {
					if _, err := w.Append(ctx, bot, id, draft(ref, chat.AgentStatus{Message: fmt.Sprint(k)})); err != nil {
						t.Error(err)
					}
					continue
				}
				if err := w.Preview(ctx, bot, id, piece(ref, block, len(text), "ab")); err != nil {
					t.Error(err)
				}
				text += "ab"
			}
			if i%2 == 1 {
				if _, err := w.Append(ctx, bot, id, draft(ref, chat.AgentText{Block: block, Text: text})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.end(ref, chat.Done)
	evs := w.events(id)
	r.until(func() bool { return len(r.log) == len(evs) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.IsSorted(r.ats) || len(slices.Compact(slices.Clone(r.ats))) != len(r.ats) {
		t.Fatal("positions do not rise strictly over events and previews")
	}
	if len(r.fold.Open) != 0 {
		t.Fatal("a finished block is open")
	}
}

// The same client_id of the same actor returns the first event, also after a restart; another payload is a conflict.
func TestRepeatedClientIDReturnsTheFirstEvent(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent, Members: []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}})
	msg := func(text, key string) chat.Draft { return chat.NewDraft(chat.UserMessage{Text: text}).As(key) }
	one := func(c chat.Caller, d ...chat.Draft) ([]chat.Event, error) { return w.Append(ctx, c, id, d) }
	first, err := one(ann, msg("a", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again, err := one(ann, msg("a", "k1"))
		if err != nil || again[0].Seq != first[0].Seq || again[0].ID != first[0].ID {
			t.Fatalf("the same again became %v: %v", again, err)
		}
		_, err = one(ann, msg("other", "k1"))
		w.wantCode(err, chat.Conflict)
		if chat.Public(err).Details["sequence"] != first[0].Seq {
			t.Fatal("the conflict does not say which event")
		}
		w.restart()
	}
	other, err := one(bob, msg("other", "k1"))
	if err != nil || other[0].Seq == first[0].Seq {
		t.Fatalf("a key belongs to its actor: %v %v", other, err)
	}
	if e, err := w.Sent(ctx, bob, id, "k1"); err != nil || e == nil || e.Seq != other[0].Seq {
		t.Fatalf("Sent finds %v: %v", e, err)
	}
	if e, err := w.Sent(ctx, bob, id, "k2"); e != nil || err != nil {
		t.Fatalf("Sent finds %v for an unused key: %v", e, err)
	}
	// Drafts repeated from an earlier call and within one call.
	evs, err := one(ann, msg("b", "k2"), msg("a", "k1"), msg("c", "k3"), msg("b", "k2"))
	if err != nil {
		t.Fatal(err)
	}
	last := other[0].Seq
	if got := []chat.Seq{evs[0].Seq, evs[1].Seq, evs[2].Seq, evs[3].Seq}; !slices.Equal(got, []chat.Seq{last + 1, first[0].Seq, last + 2, last + 1}) {
		t.Fatalf("numbers are %v", got)
	}
	// Atomic: if one draft is refused, none is stored.
	for _, bad := range []chat.Draft{msg("x", "k3"), chat.NewDraft(chat.TurnInput{}), chat.NewDraft(chat.UserInputResponse{RequestID: "none"})} {
		_, err = one(ann, msg("d", "k4"), bad)
		if err == nil {
			t.Fatal("a bad array was taken")
		}
		if i := chat.Public(err).Details["index"]; i != 1 && chat.CodeOf(err) != chat.NotFound {
			t.Fatalf("the error does not say which: %v", err)
		}
	}
	if st := w.state(id); st.Last != last+2 {
		t.Fatalf("a refused array left a trace: %d events", st.Last)
	}
	if _, err = one(ann, msg("d", "k4")); err != nil {
		t.Fatal("the key of a refused array is used up", err)
	}
	w.events(id)
}

func TestDraftsBeyondTheLimitsAreRefused(t *testing.T) {
	w := newTestStore(t, Options{MaxQueue: 2})
	id := w.begin("s")
	huge := chat.Draft{Type: "my.thing", Payload: json.RawMessage(`{"a":"` + strings.Repeat("x", chat.MaxEvent-600) + `"}`)}
	_, err := w.Append(ctx, ann, id, []chat.Draft{huge})
	w.wantCode(err, chat.TooLarge)
	d := chat.NewDraft(chat.UserMessage{Text: "x"})
	d.Workstream = "nowhere"
	_, err = w.Append(ctx, ann, id, []chat.Draft{d})
	w.wantCode(err, chat.NotFound)
	for range 3 {
		w.say(id, "x")
	}
	_, err = w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})})
	w.wantCode(err, chat.SlowDown)
	w.append(ann, id, chat.Unknown{Name: "my.thing", Payload: json.RawMessage(`{"a":1}`)})
}
