package journal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

func wantCode(t testing.TB, err error, code chat.Code) {
	t.Helper()
	if chat.CodeOf(err) != code {
		t.Fatalf("got %v (code %q), want code %q", err, chat.CodeOf(err), code)
	}
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func readAll(t testing.TB, s *Journal, id chat.SessionID) []chat.Fact {
	t.Helper()
	facts, more, err := s.Read(ctx, id, chat.Range{})
	if err != nil || more {
		t.Fatalf("read %s: more=%t, %v", id, more, err)
	}
	return facts
}

// checkLog reports how the stored log of a session is not what it promises to be.
func checkLog(ctx context.Context, s *Journal, id chat.SessionID) error {
	facts, _, err := s.Read(ctx, id, chat.Range{})
	if err != nil {
		return err
	}
	fold := &chat.State{}
	for i, f := range facts {
		e, err := f.Event()
		switch {
		case err != nil:
			return fmt.Errorf("event %d: %w", i+1, err)
		case e.Seq != chat.Seq(i+1) || f.Seq != e.Seq || e.Session != id:
			return fmt.Errorf("event %d is %d of %s", i+1, e.Seq, e.Session)
		case e.Prev != fold.Head:
			return fmt.Errorf("event %d does not follow", e.Seq)
		}
		fold.Apply(&e)
		fold.Head = f.Hash()
	}
	state, err := s.Load(ctx, id)
	if err != nil {
		return err
	}
	fold.Number = state.Number
	want, _ := json.Marshal(fold)
	got, _ := json.Marshal(state)
	if !bytes.Equal(want, got) || fold.Head != state.Head {
		return fmt.Errorf("the loaded state of %s is not the fold of its log:\n%s\n%s", id, got, want)
	}
	rec, err := s.Record(ctx, id)
	if err != nil {
		return err
	}
	want, _ = json.Marshal(fold.Session)
	if got, _ = json.Marshal(rec); !bytes.Equal(want, got) {
		return fmt.Errorf("the record of %s is not what its log gives:\n%s\n%s", id, got, want)
	}
	return nil
}

func TestEventsAreContiguous(t *testing.T) { onEachStore(t, testEventsAreContiguous) }

func testEventsAreContiguous(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1")
	a.append(t, message("two"), message("three")).append(t, message("four"))
	for i, f := range readAll(t, s, "s-1") {
		if f.Seq != chat.Seq(i+1) {
			t.Fatalf("event %d has sequence %d", i, f.Seq)
		}
	}
	if err := checkLog(ctx, s, "s-1"); err != nil {
		t.Fatal(err)
	}
	// Malformed commits are refused, and nothing of them is stored.
	for name, spoil := range map[string]func(*core.Commit){
		"hole":          func(c *core.Commit) { c.Events[1].Seq++; c.Facts[1].Seq++ },
		"facts missing": func(c *core.Commit) { c.Facts = c.Facts[:1] },
		"empty":         func(c *core.Commit) { c.Events, c.Facts = nil, nil },
		"half a record": func(c *core.Commit) { c.Record = &chat.Session{} },
		"no number":     func(c *core.Commit) { c.Number = 0 },
		"wrong number":  func(c *core.Commit) { c.Number++ },
	} {
		c := must(a.build(message("x"), message("y")))(t)
		spoil(c)
		if err := s.Commit(ctx, c); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := must(a.build(message("x")))(t)
	c.Events[0].Prev[0] ^= 1
	wantCode(t, s.Commit(ctx, c), chat.Conflict)
	if n := len(readAll(t, s, "s-1")); n != 4 {
		t.Fatalf("%d events after refused commits", n)
	}
	facts, more, err := s.Read(ctx, "s-1", chat.Range{After: 4})
	if err != nil || more || len(facts) != 0 {
		t.Fatalf("behind the end: %d events, more=%t, %v", len(facts), more, err)
	}
	wantCode(t, second(s.Get(ctx, "s-1", 5)), chat.NotFound)
	wantCode(t, second(s.Get(ctx, "s-1", 0)), chat.NotFound)
	wantCode(t, second(s.Get(ctx, "s-none", 1)), chat.NotFound)
	f := must(s.Get(ctx, "s-1", 2))(t)
	if f.Seq != 2 || !bytes.Equal(f.JSON, readAll(t, s, "s-1")[1].JSON) {
		t.Fatalf("Get gave %d %s", f.Seq, f.JSON)
	}
}

func second[T any](_ T, err error) error { return err }

func TestOneOfManyCommitsWins(t *testing.T) { onEachStore(t, testOneOfManyCommitsWins) }

func testOneOfManyCommitsWins(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1").append(t, message("two"))
	stale := must(a.build(message("mine")))(t)
	a.append(t, message("theirs"))
	err := s.Commit(ctx, stale)
	wantCode(t, err, chat.Conflict)
	if last := chat.Public(err).Details["last"]; last != chat.Seq(3) {
		t.Fatalf("the conflict names %v (%T) as last", last, last)
	}
	// Of many that follow the same event exactly one wins.
	base := *a
	var wg sync.WaitGroup
	var mu sync.Mutex
	won, lost := 0, 0
	for i := range 16 {
		mine := base
		c := must(mine.build(message("racer %d", i)))(t)
		wg.Go(func() {
			err := s.Commit(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			switch chat.CodeOf(err) {
			case "":
				won++
			case chat.Conflict:
				lost++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 || lost != 15 {
		t.Fatalf("%d won, %d lost", won, lost)
	}
	if err := checkLog(ctx, s, "s-1"); err != nil {
		t.Fatal(err)
	}
	ghost := must(base.build(message("x")))(t)
	ghost.Session = "s-ghost"
	wantCode(t, s.Commit(ctx, ghost), chat.NotFound)
}

func TestSessionIsCreatedOnce(t *testing.T) { onEachStore(t, testSessionIsCreatedOnce) }

func testSessionIsCreatedOnce(t *testing.T, s *Journal) {
	n, exists, err := s.Number(ctx, "s-1")
	if err != nil || exists || n == 0 {
		t.Fatal(n, exists, err)
	}
	wantCode(t, second(s.SessionOf(ctx, n)), chat.NotFound)
	wantCode(t, second(s.Load(ctx, "s-1")), chat.NotFound)
	first := must(newAuthor(s, "s-1"))(t)
	rival := must(newAuthor(s, "s-1"))(t)
	first.append(t, chat.SessionStarted{Agent: chat.NoAgent})
	wantCode(t, rival.try(chat.SessionStarted{Agent: chat.NoAgent}), chat.Conflict)
	if got, exists, err := s.Number(ctx, "s-1"); err != nil || !exists || got != n {
		t.Fatal(got, exists, err)
	}
	if id := must(s.SessionOf(ctx, n))(t); id != "s-1" {
		t.Fatal(id)
	}
	// Another session that claims the number gets a conflict.
	duplicate := must(newAuthor(s, "s-2"))(t)
	duplicate.State.Number = n
	wantCode(t, duplicate.try(chat.SessionStarted{Agent: chat.NoAgent}), chat.Conflict)
	bad := must(newAuthor(s, "s-3"))(t)
	c := must(bad.build(message("x")))(t)
	c.Session = "not a name"
	wantCode(t, s.Commit(ctx, c), chat.Invalid)
}

func TestClientIDFindsItsEvent(t *testing.T) { onEachStore(t, testClientIDFindsItsEvent) }

func testClientIDFindsItsEvent(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1")
	a.Key(0, "c-1").Key(1, "c-2").append(t, message("one"), message("two"))
	a.append(t, message("no key"))
	b := begin(t, s, "s-2")
	k, ok, err := s.ByClientID(ctx, "s-1", a.Actor.Key(), "c-2")
	if err != nil || !ok || k.Seq != 3 || k.Digest == 0 || k.ClientID != "c-2" || k.Actor != a.Actor.Key() {
		t.Fatal(k, ok, err)
	}
	for _, miss := range []struct {
		id            chat.SessionID
		actor, client string
	}{
		{"s-1", a.Actor.Key(), "c-3"}, {"s-1", "user:bob", "c-1"}, {"s-2", b.Actor.Key(), "c-1"}, {"s-1", a.Actor.Key() + "c", "-1"}, {"s-1", "", ""},
	} {
		if k, ok, err := s.ByClientID(ctx, miss.id, miss.actor, miss.client); ok || err != nil {
			t.Errorf("%v found %v, %v", miss, k, err)
		}
	}
	_, _, err = s.ByClientID(ctx, "s-none", "a", "b")
	wantCode(t, err, chat.NotFound)
}

func TestReadHonoursTheRange(t *testing.T) { onEachStore(t, testReadHonoursTheRange) }

func testReadHonoursTheRange(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1")
	for i := 2; i <= 30; i++ {
		if i%3 == 0 {
			a.append(t, chat.AgentStatus{Message: fmt.Sprint("status ", i)})
		} else {
			a.append(t, message("message %d", i))
		}
	}
	all := readAll(t, s, "s-1")
	line := func(s string) *string { return &s }
	ranges := []chat.Range{
		{}, {After: 10}, {Before: 10}, {After: 5, Before: 12}, {After: 12, Before: 5}, {After: 30}, {After: 1 << 63}, {Before: 1 << 62},
		{Limit: 1}, {Limit: 7}, {Limit: 30}, {Limit: 31}, {After: 28, Limit: 2}, {MaxBytes: 1}, {MaxBytes: 1500}, {MaxBytes: 1 << 20}, {Limit: 3, MaxBytes: 10000},
		{Types: []string{"user.message"}}, {Types: []string{"agent.status", "session.started"}, Limit: 4}, {Types: []string{}}, {Types: []string{"none.such"}},
		{Workstream: line("")}, {Workstream: line("other")}, {Workstream: line(""), Types: []string{"agent.status"}, Limit: 2, After: 9},
		{Types: []string{"session.started"}, Limit: 1}, {After: 1<<64 - 1}, {Before: 1},
	}
	for _, r := range ranges {
		for _, desc := range []bool{false, true} {
			r.Desc = desc
			want, wantMore := expectedRead(t, all, r)
			got, more, err := s.Read(ctx, "s-1", r)
			if err != nil {
				t.Fatalf("%+v: %v", r, err)
			}
			if more != wantMore || !slices.EqualFunc(got, want, func(a, b chat.Fact) bool { return a.Seq == b.Seq && bytes.Equal(a.JSON, b.JSON) }) {
				t.Errorf("%+v: got %d events, more=%t; want %d, more=%t", r, len(got), more, len(want), wantMore)
			}
		}
	}
	wantCode(t, func() error { _, _, err := s.Read(ctx, "s-none", chat.Range{}); return err }(), chat.NotFound)
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := s.Read(done, "s-1", chat.Range{After: 29}); err != nil && err != context.Canceled {
		t.Fatal(err)
	}
}

// expectedRead applies a range to all events, in the simplest way.
func expectedRead(t testing.TB, all []chat.Fact, r chat.Range) (want []chat.Fact, more bool) {
	all = slices.Clone(all)
	if r.Desc {
		slices.Reverse(all)
	}
	size := 0
	for _, f := range all {
		e := must(f.Event())(t)
		if f.Seq <= r.After || r.Before != 0 && f.Seq >= r.Before ||
			r.Types != nil && !slices.Contains(r.Types, e.Type) || r.Workstream != nil && e.Workstream != *r.Workstream {
			continue
		}
		if len(want) > 0 && (r.Limit > 0 && len(want) == r.Limit || r.MaxBytes > 0 && size+len(f.JSON) > r.MaxBytes) {
			return want, true
		}
		want, size = append(want, f), size+len(f.JSON)
	}
	return want, false
}

func TestRecordFollowsTheLog(t *testing.T) { onEachStore(t, testRecordFollowsTheLog) }

func testRecordFollowsTheLog(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1", chat.SessionStarted{Agent: chat.NoAgent, Title: "first"})
	a.append(t, message("hello"))
	rec := must(s.Record(ctx, "s-1"))(t)
	if rec.Title != "first" || rec.Last != 2 || rec.UpdatedAt != a.State.LastAt || rec.Owner.ID != "ann" {
		t.Fatalf("%+v", rec)
	}
	title := "second"
	a.append(t, chat.SessionUpdated{Title: &title})
	if rec = must(s.Record(ctx, "s-1"))(t); rec.Title != "second" || rec.Last != 3 {
		t.Fatalf("%+v", rec)
	}
	wantCode(t, second(s.Record(ctx, "s-none")), chat.NotFound)
}
