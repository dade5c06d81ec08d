package session

import (
	"context"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	store "github.com/parley-hq/parley/internal/journal"
)

// follow makes one store keep what another one decides, as a node of a cluster does.
func follow(t *testing.T, owner, follower *testStore) {
	owner.log.before = func(c *core.Commit) error {
		kind, data, err := store.EncodeChange(nil, &store.CommitChange{Commit: c})
		if err != nil {
			return err
		}
		change, err := store.DecodeChange(kind, data)
		if err != nil {
			return err
		}
		refused, err := follower.log.Apply(&store.Frame{Changes: []store.Change{change}})
		if err != nil || refused[0] != nil {
			t.Errorf("apply: %v, %v", refused, err)
			return nil
		}
		got := change.(*store.CommitChange).Commit
		follower.Applied(got)
		follower.hub.Publish(got.Session, got.Entries(nil))
		return nil
	}
}

// A member that a commit of another node removes loses access at once, also with a stream
// that is open.
func TestMemberRemovedByAnotherNodeLosesAccess(t *testing.T) {
	a, b := newTestStore(t, Options{}), newTestStore(t, Options{})
	follow(t, a, b)
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}
	id := a.begin("s", chat.NewSession{Agent: chat.NoAgent, Members: members})
	a.say(id, "one")

	r := newReader(chat.Cursor{})
	ended := make(chan error, 1)
	go func() { ended <- r.run(t.Context(), b.Sessions, bob, id) }()
	r.until(func() bool { return len(r.log) == 2 })
	st, err := b.State(ctx, bob, id)
	if err != nil || st.Last != 2 {
		t.Fatal(st, err)
	}
	a.say(id, "two")
	r.until(func() bool { return len(r.log) == 3 })
	if st, err = b.State(ctx, bob, id); err != nil || st.Last != 3 {
		t.Fatalf("the cached state is at %d, %v", st.Last, err)
	}

	if _, err := a.Update(ctx, ann, id, chat.SessionUpdated{Members: &[]chat.Member{}}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; chat.CodeOf(err) != chat.NotFound {
		t.Errorf("the stream ended with %v", err)
	}
	r.mu.Lock()
	if len(r.log) != 3 {
		t.Errorf("the reader got %d events", len(r.log))
	}
	r.mu.Unlock()
	_, err = b.State(ctx, bob, id)
	wantCode(t, err, chat.NotFound)
	_, err = b.Append(ctx, bob, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})})
	wantCode(t, err, chat.NotFound)
	if _, err := b.State(ctx, ann, id); err != nil {
		t.Error(err)
	}
}

// A record that was read before a commit was applied is not cached after it.
func TestRecordReadBeforeACommitIsNotCachedAfterIt(t *testing.T) {
	a, b := newTestStore(t, Options{}), newTestStore(t, Options{})
	follow(t, a, b)
	for range 50 {
		id := a.begin(b.newID(), chat.NewSession{Agent: chat.NoAgent, Members: []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = b.State(ctx, bob, id)
		}()
		if _, err := a.Update(ctx, ann, id, chat.SessionUpdated{Members: &[]chat.Member{}}); err != nil {
			t.Fatal(err)
		}
		<-done
		_, err := b.State(ctx, bob, id)
		wantCode(t, err, chat.NotFound)
	}
}

// An erasure of another node ends streams and frees what was counted.
func TestErasureOfAnotherNodeEndsStreams(t *testing.T) {
	a, b := newTestStore(t, Options{}), newTestStore(t, Options{Quotas: Quotas{Sessions: 2}})
	follow(t, a, b)
	a.begin("s-1", chat.NewSession{Agent: chat.NoAgent})
	if err := b.mayOwnMore(ctx, ann); err != nil { // counts
		t.Fatal(err)
	}
	id := a.begin("s-2", chat.NewSession{Agent: chat.NoAgent})
	wantCode(t, b.mayOwnMore(ctx, ann), chat.SlowDown)
	run, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := newReader(chat.Cursor{})
	ended := make(chan error, 1)
	go func() { ended <- r.run(run, b.Sessions, ann, id) }()
	r.until(func() bool { return len(r.log) == 1 })

	e, err := a.log.BeginErase(ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if refused, err := b.log.Apply(&store.Frame{Changes: []store.Change{&store.EraseChange{Erasure: e}}}); err != nil || refused[0] != nil {
		t.Fatal(refused, err)
	}
	b.AppliedErasure(e)
	if err := <-ended; chat.CodeOf(err) != chat.Gone {
		t.Errorf("the stream ended with %v", err)
	}
	_, err = b.State(ctx, ann, id)
	wantCode(t, err, chat.Gone)
	if err := b.mayOwnMore(ctx, ann); err != nil {
		t.Error(err)
	}
}

func wantCode(t *testing.T, err error, code chat.Code) {
	t.Helper()
	if chat.CodeOf(err) != code {
		t.Errorf("%v, want code %q", err, code)
	}
}
