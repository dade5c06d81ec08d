package record

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

var (
	alice = chat.Actor{Kind: chat.User, ID: "alice"}
	bob   = chat.Actor{Kind: chat.User, ID: "bob"}
)

// Kinds in these tests: a team has a conversation, and members that are deleted with it. A note has no conversation. A
// call is stored with a team.
func setsOf(s *store, opened func(*Set)) *Sets {
	return NewSets(SetOptions{
		Sessions: s, Name: "test", Title: "Test", Opened: opened, Logger: slog.New(slog.DiscardHandler),
		Kinds: map[string]Kind{"team": {OfSession: true, ErasesSession: true}, "member": {OfSession: true, ErasesSession: true}, "call": {OfSession: true}},
		DeletedWith: func(r *Record, all []*Record, by []chat.Actor) (ids []string) {
			for _, o := range all {
				if o.Kind == "member" && o.Text("team") == r.ID && (o.Owner.Same(r.Owner) || slices.ContainsFunc(by, o.Owner.Same)) {
					ids = append(ids, o.ID)
				}
			}
			return ids
		},
	})
}

func setIn(t *testing.T, ss *Sets, workspace string) *Set {
	t.Helper()
	s, err := ss.In(t.Context(), workspace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func quote(s string) json.RawMessage { return json.RawMessage(fmt.Sprintf("%q", s)) }

func fields(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = quote(pairs[i+1])
	}
	return m
}

// put stores a record, with its conversation if it has one.
func put(t *testing.T, s *store, set *Set, kind, id string, owner chat.Actor, pairs ...string) {
	t.Helper()
	if kind == "team" || kind == "member" {
		title := secret
		if owner != alice {
			title = "Plain"
		}
		if _, _, err := s.Sessions.Create(t.Context(), chat.Trusted, chat.NewSession{ID: chat.SessionID(id), Agent: chat.NoAgent, Title: title}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := set.Put(t.Context(), Record{Kind: kind, ID: id, Owner: owner, Fields: fields(pairs...)}); err != nil {
		t.Fatal(err)
	}
}

func ids(list []*Record) (ids []string) {
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestRecordsAreReadBack(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	set := setIn(t, setsOf(s, nil), "w")
	for _, id := range []string{"n2", "n1", "n3"} {
		put(t, s, set, "note", id, alice, "name", id)
	}
	put(t, s, set, "team", "t1", alice, "name", "the team")
	first := set.Get("note", "n1")
	changed, err := set.SetFields(t.Context(), first, fields("color", "red"))
	if err != nil || changed.Created != first.Created || changed.Updated <= first.Updated || first.Text("color") != "" {
		t.Fatal(changed, err)
	}
	kept, err := set.Change(t.Context(), "n1", func(old *Record, find func(string) *Record) (*Record, error) {
		if old != changed || find("n2") == nil || find("n9") != nil {
			t.Error(old)
		}
		return nil, nil
	})
	if err != nil || kept != changed {
		t.Error(kept, err)
	}
	if err := set.Delete(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	if _, err := set.SetFields(t.Context(), &Record{Kind: "note", ID: "n3"}, nil); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("a deleted record was changed: %v", err)
	}
	check := func(set *Set) {
		t.Helper()
		if got := ids(set.List("note")); !slices.Equal(got, []string{"n2", "n1"}) {
			t.Error(got)
		}
		r := set.Get("note", "n1")
		if r.Text("name") != "n1" || r.Text("color") != "red" || r.Text("none") != "" || r.Created != changed.Created || r.Updated != changed.Updated || r.Owner != alice {
			t.Errorf("%+v", r)
		}
		if set.Get("team", "n1") != nil || set.Get("note", "n3") != nil || set.Get("team", "t1") == nil {
			t.Error("found by another kind, or after its deletion")
		}
	}
	check(set)
	s = s.restart()
	ss := setsOf(s, nil)
	check(setIn(t, ss, "w"))
	if got := setIn(t, ss, chat.DefaultWorkspace).List("note"); len(got) != 0 {
		t.Errorf("another workspace has %v", got)
	}
}

func TestConcurrentChangesOfARecordAreAllKept(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	ss := setsOf(s, nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			set, err := ss.In(t.Context(), "w")
			if err != nil {
				t.Error(err)
				return
			}
			_, err = set.Change(t.Context(), "n", func(old *Record, _ func(string) *Record) (*Record, error) {
				next := Record{Kind: "note", ID: "n", Fields: fields(fmt.Sprint("f", i), "x")}
				if old != nil {
					for k, v := range old.Fields {
						next.Fields[k] = v
					}
				}
				return &next, nil
			})
			if err != nil {
				t.Error(err)
			}
			set.List("note")
		})
	}
	wg.Wait()
	if r := setIn(t, ss, "w").Get("note", "n"); len(r.Fields) != 20 {
		t.Errorf("%d fields", len(r.Fields))
	}
}

// A record that is written while it is deleted is gone in the end, from every file.
func TestARecordIsDeletedWhileItIsChanged(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	set := setIn(t, setsOf(s, nil), "w")
	put(t, s, set, "note", "n", alice, "text", secret)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, err := set.SetFields(t.Context(), &Record{Kind: "note", ID: "n"}, fields("more", secret))
			if err != nil && chat.CodeOf(err) != chat.NotFound {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := set.Delete(t.Context(), "n"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if set.Get("note", "n") != nil || len(s.filesWithSecret()) > 0 {
		t.Error("it is still there", s.filesWithSecret())
	}
}

// teamWithSecret stores the secret in a team, a member, their conversations and a call. Another member is bob's.
func teamWithSecret(t *testing.T, s *store, set *Set) {
	t.Helper()
	put(t, s, set, "team", "t1", alice, "name", secret)
	put(t, s, set, "member", "m1", alice, "team", "t1", "name", secret)
	put(t, s, set, "member", "m2", bob, "team", "t1")
	if _, err := set.Put(t.Context(), Record{Kind: "call", ID: "c1", StoredWith: "t1", Fields: fields("url", secret)}); err != nil {
		t.Fatal(err)
	}
}

func TestDeletedRecordsAreInNoFile(t *testing.T) {
	t.Parallel()
	for _, by := range []chat.Actor{alice, bob} {
		s := openStore(t)
		set := setIn(t, setsOf(s, nil), "w")
		teamWithSecret(t, s, set)
		s = s.restart()
		if len(s.filesWithSecret()) == 0 {
			t.Fatal("the test cannot find the secret")
		}
		set = setIn(t, setsOf(s, nil), "w")
		if set.Get("call", "c1").StoredWith != "t1" {
			t.Error(set.Get("call", "c1"))
		}
		if err := set.Delete(t.Context(), "t1", by); err != nil {
			t.Fatal(err)
		}
		// What another owner has stays, unless that owner asked for the deletion.
		left := ids(set.List("member"))
		if by == alice && !slices.Equal(left, []string{"m2"}) || by == bob && left != nil {
			t.Errorf("by %s: %v", by.ID, left)
		}
		if by == alice {
			if _, err := s.Get(t.Context(), chat.Trusted, "m2"); err != nil {
				t.Error(err)
			}
		}
		for id := range map[chat.SessionID]bool{"t1": true, "m1": true, "sys-test-t1": true, "sys-test-m1": true} {
			if _, err := s.Get(t.Context(), chat.Trusted, id); chat.CodeOf(err) != chat.Gone {
				t.Errorf("%s: %v", id, err)
			}
		}
		if files := s.filesWithSecret(); len(files) > 0 {
			t.Errorf("the secret is in %v", files)
		}
		if set.Get("call", "c1") != nil {
			t.Error("a record that was stored with it is still there")
		}
	}
}

// killAtEveryStep does an operation with 0, 1, 2 … writes until it succeeds. After each failure, a new process opens the
// set. look returns the state that it finds; every state of want must occur, and no other. With lost, the last write is
// done and only its answer is lost.
func killAtEveryStep(t *testing.T, prepare func(*store, *Set), operation func(*store, *Set) error, look func(*store, *Set) string, want ...string) {
	found := map[string]bool{}
	for _, lost := range []bool{false, true} {
		for n := int64(0); ; n++ {
			s := openStore(t)
			set := setIn(t, setsOf(s, nil), "w")
			prepare(s, set)
			s.lost.Store(lost)
			s.left.Store(n)
			err := operation(s, set)
			if err == nil {
				break
			}
			s = s.restart()
			state := look(s, setIn(t, setsOf(s, nil), "w"))
			if found[state] = true; !slices.Contains(want, state) {
				t.Errorf("killed after %d writes, lost=%t: %s", n, lost, state)
			}
		}
	}
	for _, state := range want {
		if !found[state] {
			t.Errorf("the state %q did not occur", state)
		}
	}
}

func TestKilledAtEveryStepOfADeletion(t *testing.T) {
	t.Parallel()
	killAtEveryStep(t,
		func(s *store, set *Set) { teamWithSecret(t, s, set) },
		func(s *store, set *Set) error { return set.Delete(t.Context(), "t1", bob) },
		func(s *store, set *Set) string {
			records := append(ids(set.List("team")), append(ids(set.List("member")), ids(set.List("call"))...)...)
			switch files := s.filesWithSecret(); {
			case slices.Equal(records, []string{"t1", "m1", "m2", "c1"}) && len(files) > 0 && len(set.sessions) == 3:
				return "there"
			case len(records)+len(files)+len(set.sessions) == 0:
				return "gone"
			default:
				return fmt.Sprint(records, files)
			}
		}, "there", "gone")
}

func TestKilledAtEveryStepOfACreation(t *testing.T) {
	t.Parallel()
	killAtEveryStep(t,
		func(s *store, set *Set) {},
		func(s *store, set *Set) error {
			if _, _, err := s.Create(t.Context(), chat.Trusted, chat.NewSession{ID: "t1", Agent: chat.NoAgent, Title: secret}); err != nil {
				return err
			}
			_, err := set.Put(t.Context(), Record{Kind: "team", ID: "t1", Fields: fields("name", secret)})
			return err
		},
		func(s *store, set *Set) string {
			_, err := s.Get(t.Context(), chat.Trusted, "t1")
			r := set.Get("team", "t1")
			switch {
			case r != nil && r.Text("name") == secret && err == nil:
				return "there"
			case r == nil && len(set.sessions) == 0 && chat.CodeOf(err) == chat.NotFound:
				return "nothing"
			case r == nil && len(set.sessions) == 0 && chat.CodeOf(err) == chat.Gone && len(s.filesWithSecret()) == 0:
				return "erased"
			case r == nil && len(set.sessions) == 0 && err == nil:
				return "conversation" // the record was not begun; the caller erases its conversation
			default:
				return fmt.Sprint(r, err, s.filesWithSecret())
			}
		}, "there", "nothing", "erased", "conversation")
}

// A deletion that failed hides the record, and can be asked for again in the same process.
func TestAnUnfinishedDeletionIsRepeated(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	set := setIn(t, setsOf(s, nil), "w")
	teamWithSecret(t, s, set)
	s.left.Store(2)
	if err := set.Delete(t.Context(), "t1", bob); err == nil {
		t.Fatal("nothing was cut")
	}
	s.left.Store(1 << 40)
	if set.Get("team", "t1") != nil || !set.Deleting("team", "t1") || set.Deleting("note", "t1") || set.List("member") != nil {
		t.Error("it is found while it is deleted")
	}
	if _, err := set.Put(t.Context(), Record{Kind: "team", ID: "t1"}); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("it was written while it is deleted: %v", err)
	}
	if err := set.Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if files := s.filesWithSecret(); len(files)+len(set.sessions) > 0 || set.Deleting("team", "t1") {
		t.Error(files, set.sessions)
	}
}

// An erased conversation takes its record with it: at once while Run runs, else at the next start.
func TestTheRecordOfAnErasedConversationIsDeleted(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		s := openStore(t)
		ss := setsOf(s, nil)
		set := setIn(t, ss, "w")
		teamWithSecret(t, s, set)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		if running {
			wg.Go(func() { ss.Run(ctx) })
		}
		if _, err := s.Sessions.Erase(t.Context(), chat.Trusted, "t1"); err != nil {
			t.Fatal(err)
		}
		ss.Erased("t1")
		if running {
			awaitEntry(t, s, "sys-test-book.w", entry{Kind: "team", ID: "t1", Gone: gone})
		}
		cancel()
		wg.Wait()
		if !running {
			s = s.restart()
			ctx, cancel := context.WithCancel(t.Context())
			ss = setsOf(s, nil)
			wg.Go(func() { ss.Run(ctx) }) // it opens the set of each workspace
			awaitEntry(t, s, "sys-test-book.w", entry{Kind: "team", ID: "t1", Gone: gone})
			cancel()
			wg.Wait()
		}
		if set = setIn(t, ss, "w"); set.Get("team", "t1") != nil || set.Get("call", "c1") != nil || len(s.filesWithSecret()) > 0 {
			t.Errorf("running=%t: it is still there: %v", running, s.filesWithSecret())
		}
	}
}

// A node of a cluster opens the records while another one is between naming and writing one.
func TestARecordThatAnotherNodeIsWritingStays(t *testing.T) {
	t.Parallel()
	for _, writeTime := range []time.Duration{0, time.Hour} {
		s := openStore(t)
		one := setIn(t, setsOf(s, nil), "w")
		one.mu.Lock()
		err := one.note(t.Context(), entry{Kind: "call", ID: "c1"})
		one.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		others := setsOf(s, nil)
		others.opt.WriteTime = writeTime
		setIn(t, others, "w")
		one.mu.Lock()
		err = one.update(t.Context())
		stays := one.sessions["c1"] != nil
		one.mu.Unlock()
		if err != nil || stays != (writeTime > 0) {
			t.Errorf("with %s for writing it stays: %v, %v", writeTime, stays, err)
		}
	}
}

// A store that cannot be read at the start, or written when a conversation is erased, delays the deletion.
func TestTheRecordOfAnErasedConversationIsDeletedLater(t *testing.T) {
	t.Parallel()
	for _, atStart := range []bool{true, false} {
		s := openStore(t)
		ss := setsOf(s, nil)
		teamWithSecret(t, s, setIn(t, ss, "w"))
		if _, err := s.Sessions.Erase(t.Context(), chat.Trusted, "t1"); err != nil {
			t.Fatal(err)
		}
		if atStart {
			s = s.restart()
			ss = setsOf(s, nil)
		}
		s.away.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { ss.Run(ctx) })
		ss.Erased("t1")
		<-s.refused
		s.away.Store(false)
		awaitEntry(t, s, "sys-test-book.w", entry{Kind: "team", ID: "t1", Gone: gone})
		cancel()
		wg.Wait()
	}
}

// awaitEntry waits for an entry of an index.
func awaitEntry(t *testing.T, s *store, id chat.SessionID, want entry) {
	t.Helper()
	for batch, err := range s.Watch(t.Context(), chat.Trusted, id, core.Start{Cursor: &chat.Cursor{}}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch.Entries {
			e, err := batch.Entries[i].Fact.Event()
			if err != nil {
				t.Fatal(err)
			}
			var got entry
			if json.Unmarshal(e.Payload, &got) == nil && got == want {
				return
			}
		}
	}
}

// Opened is called once for each set, also when requests arrive together.
func TestASetIsOpenedOnce(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	put(t, s, setIn(t, setsOf(s, nil), "w"), "note", "n", alice)
	var mu sync.Mutex
	opened := 0
	ss := setsOf(s, func(set *Set) {
		mu.Lock()
		defer mu.Unlock()
		if opened++; len(set.List("note")) != 1 {
			t.Error("it is opened before it was read")
		}
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { setIn(t, ss, "w") })
	}
	wg.Wait()
	if opened != 1 {
		t.Errorf("opened %d times", opened)
	}
}

// behind is a node that has only the first event of the session of a record, until it waits for the rest.
type behind struct {
	*store
	session chat.SessionID
	waited  bool
}

func (b *behind) Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error] {
	return func(yield func(chat.Event, error) bool) {
		for e, err := range b.store.Events(ctx, c, id, r) {
			if err == nil && id == b.session && !b.waited && e.Seq > 1 || !yield(e, err) {
				return
			}
		}
	}
}

func (b *behind) Latest(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	b.waited = b.waited || id == b.session
	return b.store.Latest(ctx, c, id)
}

// A node that starts must not delete a record that another node has written, and that it has not read yet.
func TestNodeThatIsBehindDeletesNoRecords(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	put(t, s, setIn(t, setsOf(s, nil), chat.DefaultWorkspace), "team", "t1", alice)
	sets := setsOf(s, nil)
	sets.opt.Sessions = &behind{store: s, session: "sys-test-t1"}
	if setIn(t, sets, chat.DefaultWorkspace).Get("team", "t1") == nil {
		t.Error("the record was deleted")
	}
	if _, err := s.Get(t.Context(), chat.Trusted, "t1"); err != nil {
		t.Errorf("its conversation: %v", err)
	}
}
