package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestFailedCommitChangesNothing(t *testing.T) {
	var told int
	w := newTestStore(t, Options{Observers: []Observer{{Committed: func(evs []chat.Event) { told += len(evs) }}}})
	id := w.begin("s")
	p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
	told = 0
	full := chat.Errorf(chat.Unavailable, "the disk is full")
	w.log.before = func(*core.Commit) error { return full }
	_, err := w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"}).As("k")})
	w.wantCode(err, chat.Unavailable)
	_, err = w.Answer(ctx, ann, id, p, chat.Answer{Text: "x"})
	w.wantCode(err, chat.Unavailable)
	sess, created, err := w.Create(ctx, ann, chat.NewSession{ID: "new"})
	if chat.CodeOf(err) != chat.Unavailable || created || sess.ID != "" {
		t.Fatal(sess, created, err)
	}
	title := "x"
	_, err = w.Update(ctx, ann, id, chat.SessionUpdated{Title: &title})
	w.wantCode(err, chat.Unavailable)
	if st := w.state(id); st.Last != 2 || len(st.Prompts) != 1 || st.Session.Title != "" || told != 0 {
		t.Fatalf("%d events, %d prompts, %d told", st.Last, len(st.Prompts), told)
	}
	w.log.before = nil
	w.append(ann, id, chat.UserMessage{Text: "x"})
	if _, err = w.Answer(ctx, ann, id, p, chat.Answer{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	w.events(id)
}

// TestFailedCommitFailsBothAnswers: two answers are in one commit, which fails. Neither is
// stored, so neither error says that the prompt was answered.
func TestFailedCommitFailsBothAnswers(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
	w.log.before = func(*core.Commit) error { return chat.Errorf(chat.Unavailable, "full") }
	r := w.acquire(id)
	defer r.release()
	one := &answering{caller: ann, request: p, answer: chat.Answer{Text: "1"}}
	two := &answering{caller: ann, request: p, answer: chat.Answer{Text: "2"}}
	bad := &answering{caller: ann, request: p, answer: chat.Answer{}}
	batch := []*request{{rules: bad}, {rules: one}, {rules: two}}
	r.handle(ctx, batch)
	w.wantCode(batch[0].err, chat.Invalid) // does not depend on the commit
	w.wantCode(batch[1].err, chat.Unavailable)
	w.wantCode(batch[2].err, chat.Unavailable)
}

// TestCommitOfAnotherWriterIsRetried commits to the session without the sequencer, as another machine
// would.
func TestCommitOfAnotherWriterIsRetried(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Members: []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}})
	p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
	// A second Sessions on the same journal.
	other := New(w.log.Journal, w.hub, w.opt)
	once := sync.OnceFunc(func() {
		if _, err := other.Append(ctx, bob, id, []chat.Draft{chat.NewDraft(chat.UserInputResponse{RequestID: p, Text: "mine"}).As("k")}); err != nil {
			t.Error(err)
		}
	})
	w.log.before = func(*core.Commit) error { once(); return nil }
	_, err := w.Answer(ctx, ann, id, p, chat.Answer{Text: "too late"})
	if d := chat.Public(err).Details; chat.CodeOf(err) != chat.Conflict || d["answered_by"].(chat.Actor).ID != "bob" {
		t.Fatal(err, d)
	}
	n := 0
	w.log.before = func(*core.Commit) error {
		n++
		if n <= 3 {
			if _, err := other.Append(ctx, bob, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: fmt.Sprint(n)})}); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	evs := w.append(ann, id, chat.UserMessage{Text: "x"})
	if want := w.state(id).Last; evs[0].Seq != want {
		t.Fatalf("event %d of %d", evs[0].Seq, want)
	}
	// Retries are bounded if another writer always commits first.
	n = -100
	_, err = w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})})
	w.wantCode(err, chat.Conflict)
	w.log.before = nil
	w.events(id)
}

func TestPanicReleasesTheSequencer(t *testing.T) {
	var bang bool
	told := 0
	w := newTestStore(t, Options{Observers: []Observer{
		{Committed: func([]chat.Event) {
			if bang {
				panic("committed")
			}
		}},
		{Committed: func([]chat.Event) { told++ }},
	}})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	r := w.acquire(id)
	defer r.release()
	good := func() *request {
		a := &appending{request: request{caller: ann}, drafts: []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})}}
		if err := a.drafts[0].Normalize(); err != nil {
			t.Fatal(err)
		}
		return &request{rules: a}
	}
	poison := &request{rules: op(func(d *decision) error {
		d.addSystem(chat.PromptClosed{RequestID: "x"}, "", "")
		panic("rules")
	})}
	look := &request{look: func(*chat.State) error { panic("look") }}
	batch := []*request{good(), poison, good(), look, good()}
	r.handle(ctx, batch)
	for i, want := range []chat.Code{"", chat.Internal, "", chat.Internal, ""} {
		if got := chat.CodeOf(batch[i].err); got != want {
			t.Errorf("request %d: %v", i, batch[i].err)
		}
	}
	bang, told = true, 0
	w.append(ann, id, chat.UserMessage{Text: "stored, whatever comes after"})
	bang = false
	if told != 1 {
		t.Errorf("the second observer was told %d times", told)
	}
	w.append(ann, id, chat.UserMessage{Text: "x"})
	w.wantStory(id, "session.started", "user.message x", "user.message x", "user.message x", "user.message stored, whatever comes after", "user.message x")
}

func TestUnstoredPreviewIsNotShown(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	w.show(ref, "b", 0, "x")
	broken := New(&failingPreviews{w.log}, w.hub, w.opt)
	err := broken.Preview(ctx, bot, id, piece(ref, "b", 1, "y"))
	w.wantCode(err, chat.Unavailable)
	if b, _ := blockOf(w.hub, id, "b"); b.Text != "x" {
		t.Fatal(b.Text)
	}
}

// failingPreviews is a journal that cannot write previews.
type failingPreviews struct{ *spy }

func (*failingPreviews) WritePreviews(_ context.Context, all []core.SessionPieces) {
	for i := range all {
		all[i].Err = chat.Errorf(chat.Unavailable, "no").Because(errors.New("io"))
	}
}

func TestWaitingRequestsAreBounded(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	r := w.acquire(id)
	defer r.release()
	r.mu.Lock()
	r.busy, r.queue = true, make([]*request, maxWaiting)
	r.mu.Unlock()
	_, err := w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})})
	w.wantCode(err, chat.SlowDown)
	if err := r.join(&request{unbounded: true}); err != nil {
		t.Fatal("what the server must do is refused", err)
	}
	r.mu.Lock()
	r.busy, r.queue = false, nil
	r.mu.Unlock()
	w.end(ref, chat.Done)
}

func TestEvictedStateIsLoadedAgain(t *testing.T) {
	w := newTestStore(t, Options{MaxCached: 1}) // one per shard
	const sessions = 300
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := i; k < sessions; k += 8 {
				id := chat.SessionID(fmt.Sprint("s", k))
				if _, _, err := w.Create(ctx, ann, chat.NewSession{ID: id}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for round := range 3 {
		for k := range sessions {
			id := chat.SessionID(fmt.Sprint("s", k))
			evs, err := w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"}).As(fmt.Sprint(round))})
			if err != nil || round > 0 && evs[0].Seq != chat.Seq(round+3) {
				t.Fatal(evs, err)
			}
		}
	}
	sequencers := 0
	for i := range w.shards {
		sequencers += len(w.shards[i].sequencers)
	}
	if sequencers > len(w.shards)+8 { // each of the creators may have exceeded it by one
		t.Fatalf("%d sequencers are kept", sequencers)
	}
	w.events("s7")
}
