package journal

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestErasedSessionIsGone(t *testing.T) { onEachStore(t, testErasedSessionIsGone) }

func testErasedSessionIsGone(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1", chat.SessionStarted{Agent: "demo", Title: "secret"})
	a.Key(0, "c-1").append(t, message("hello"))
	b := begin(t, s, "s-2")
	r, err := eraseNow(s, "s-1")
	if err != nil {
		t.Fatal(err)
	}
	if r.Session != "s-1" || r.Events != 2 || r.Bytes == 0 || r.ErasedAt == 0 || r.Note == "" {
		t.Fatalf("%+v", r)
	}
	_, _, readErr := s.Read(ctx, "s-1", chat.Range{})
	_, _, keyErr := s.ByClientID(ctx, "s-1", "user:ann", "c-1")
	_, _, promptErr := s.Prompt(ctx, "s-1", "r")
	_, _, numberErr := s.Number(ctx, "s-1")
	for name, err := range map[string]error{
		"read": readErr, "client id": keyErr, "prompt": promptErr, "number": numberErr, "again": second(eraseNow(s, "s-1")),
		"record": second(s.Record(ctx, "s-1")), "load": second(s.Load(ctx, "s-1")), "get": second(s.Get(ctx, "s-1", 1)),
		"number of": second(s.SessionOf(ctx, a.State.Number)), "append": a.try(message("more")),
	} {
		if chat.CodeOf(err) != chat.Gone {
			t.Errorf("%s: %v", name, err)
		}
	}
	again := &author{journal: s, State: &chat.State{Number: a.State.Number}, Actor: a.Actor, Clock: epoch, id: "s-1"}
	wantCode(t, again.try(chat.SessionStarted{}), chat.Gone)
	wantIDs(t, pages(t, s, core.Filter{}), "s-2")
	wantCode(t, second(eraseNow(s, "s-none")), chat.NotFound)
	b.append(t, message("unharmed"))
	if err := checkLog(ctx, s, "s-2"); err != nil {
		t.Fatal(err)
	}
}

func give(facts []chat.Fact) iter.Seq2[chat.Fact, error] {
	return func(yield func(chat.Fact, error) bool) {
		for _, f := range facts {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func TestImportMovesASession(t *testing.T) {
	onEachStore(t, func(t *testing.T, to *Journal) {
		testImportMovesASession(t, openTest(t, t.TempDir(), Options{}), to)
	})
}

func testImportMovesASession(t *testing.T, from, to *Journal) {
	a := begin(t, from, "s-1", chat.SessionStarted{Agent: "demo", Title: "to move"})
	a.Key(0, "c-1").append(t, message("one"))
	a.append(t, chat.AgentInputRequest{RequestID: "r-1", InputType: chat.InputText, Text: "?", Deadline: epoch + 5e9})
	a.append(t, chat.AgentInputRequest{RequestID: "r-2", InputType: chat.InputText, Text: "?"})
	a.append(t, chat.UserInputResponse{RequestID: "r-2", Text: "!"})
	for range 3 {
		long := slices.Repeat([]chat.Body{message("%s", strings.Repeat("x", 500))}, 700)
		a.append(t, long...)
	}
	facts := readAll(t, from, "s-1")
	if err := to.Import(ctx, "s-1", give(facts)); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, to, "s-1"); !slices.EqualFunc(got, facts, func(a, b chat.Fact) bool { return a.Seq == b.Seq && bytes.Equal(a.JSON, b.JSON) }) {
		t.Fatal("the bytes were not kept")
	}
	if err := checkLog(ctx, to, "s-1"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Journal{from, to} {
		k, ok, err := s.ByClientID(ctx, "s-1", a.Actor.Key(), "c-1")
		if err != nil || !ok || k.Seq != 2 {
			t.Fatal(k, ok, err)
		}
		if ref, ok, err := s.Prompt(ctx, "s-1", "r-2"); err != nil || !ok || ref != (core.PromptRef{Asked: 4, Ended: 5}) {
			t.Fatal(ref, ok, err)
		}
		n := 0
		for d, err := range s.Deadlines(ctx) {
			if n++; err != nil || d.RequestID != "r-1" {
				t.Fatal(d, err)
			}
		}
		for id, err := range s.Working(ctx) {
			if n++; err != nil || id != "s-1" {
				t.Fatal(id, err)
			}
		}
		if n != 2 {
			t.Fatalf("%d index entries, want a deadline and a working session", n)
		}
		wantIDs(t, pages(t, s, core.Filter{}), "s-1")
	}
	resume(t, to, "s-1").append(t, message("and goes on"))
	wantCode(t, to.Import(ctx, "s-1", give(facts)), chat.Conflict)
}

func TestBadImportIsRefused(t *testing.T) { onEachStore(t, testBadImportIsRefused) }

func testBadImportIsRefused(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1")
	a.append(t, message("two"), message("three"), message("four"))
	facts := readAll(t, s, "s-1")
	if _, err := eraseNow(s, "s-1"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Import(ctx, "s-1", give(facts)), chat.Gone)

	// A log that another store made for s-2.
	n, _, err := s.Number(ctx, "s-2")
	if err != nil {
		t.Fatal(err)
	}
	ghost := &author{State: &chat.State{Number: n}, Actor: a.Actor, Clock: epoch, Step: 1000, id: "s-2"}
	facts = must(ghost.build(chat.SessionStarted{Agent: chat.NoAgent}, message("two"), message("three")))(t).Facts
	changed := bytes.Replace(facts[1].JSON, []byte("two"), []byte("TWO"), 1)
	cause := errors.New("the source broke")
	for name, log := range map[string]iter.Seq2[chat.Fact, error]{
		"nothing":        give(nil),
		"starts late":    give(facts[1:]),
		"hole":           give([]chat.Fact{facts[0], facts[2]}),
		"changed":        give([]chat.Fact{facts[0], {Seq: 2, JSON: changed}, facts[2]}),
		"not an event":   give([]chat.Fact{facts[0], {Seq: 2, JSON: []byte("{}")}}),
		"wrong sequence": give([]chat.Fact{facts[0], {Seq: 3, JSON: facts[1].JSON}}),
		"twice":          give([]chat.Fact{facts[0], facts[0]}),
	} {
		if err := s.Import(ctx, "s-2", log); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	err = s.Import(ctx, "s-2", func(yield func(chat.Fact, error) bool) {
		_ = yield(facts[0], nil) && yield(facts[1], nil) && yield(chat.Fact{}, cause)
	})
	if !errors.Is(err, cause) {
		t.Fatal(err)
	}
	wantCode(t, s.Import(ctx, "s-3", give(facts)), chat.Invalid)
	wantCode(t, second(s.Record(ctx, "s-2")), chat.NotFound)
	wantIDs(t, pages(t, s, core.Filter{}))
	// Refused imports leave nothing behind.
	if err := s.Import(ctx, "s-2", give(facts)); err != nil {
		t.Fatal(err)
	}
	if err := checkLog(ctx, s, "s-2"); err != nil {
		t.Fatal(err)
	}
}

func TestLoadUsesCheckpoints(t *testing.T) { onEachStore(t, testLoadUsesCheckpoints) }

func testLoadUsesCheckpoints(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1", chat.SessionStarted{Agent: "demo"})
	step := core.CheckpointEvery/2 + 1
	for i := range 8 {
		bodies := make([]chat.Body, step)
		for k := range bodies {
			bodies[k] = chat.AgentStatus{Message: "busy"}
		}
		bodies[0] = message("question %d", i)
		bodies[1] = chat.AgentInputRequest{RequestID: strings.Repeat("r", i+1), InputType: chat.InputText, Text: "?"}
		a.append(t, bodies...)
		if err := checkLog(ctx, s, "s-1"); err != nil {
			t.Fatal(err)
		}
	}
}

// Arguments that callers should never send.
func TestInvalidArgumentsDoNotPanic(t *testing.T) { onEachStore(t, testInvalidArgumentsDoNotPanic) }

func testInvalidArgumentsDoNotPanic(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1")
	odd := []string{"", "\x00", "\xff\xfe", strings.Repeat("x", 100_000), "..", "a/b", "ü"}
	for _, o := range odd {
		id := chat.SessionID(o)
		s.Number(ctx, id)
		s.Load(ctx, id)
		s.Record(ctx, id)
		s.Read(ctx, id, chat.Range{Limit: -1, MaxBytes: -1})
		s.Get(ctx, id, math.MaxUint64)
		eraseNow(s, id)
		s.Import(ctx, id, give([]chat.Fact{{}}))
		s.ByClientID(ctx, "s-1", o, o)
		s.Prompt(ctx, "s-1", o)
		s.Alias(ctx, o, o, o)
		s.SetAlias(ctx, o, o, o, "s-9")
		s.SetAlias(ctx, o, o, o, id)
		s.List(ctx, core.Filter{Workspace: o, Query: o, Limit: -5, Actor: &chat.Actor{ID: o}})
		s.List(ctx, core.Filter{Cursor: o})
	}
	s.SessionOf(ctx, math.MaxUint64)
	s.Ends(ctx, "s-1", math.MaxUint64)
	s.Read(ctx, "s-1", chat.Range{After: math.MaxUint64, Desc: true, Limit: math.MinInt})
	wantCode(t, s.Commit(ctx, nil), chat.Invalid)
	wantCode(t, s.Commit(ctx, &core.Commit{Session: "s-1", Number: 1, Events: make([]chat.Event, 1), Facts: make([]chat.Fact, 1), After: math.MaxUint64}), chat.Invalid)
	a.append(t, message("still here"))
	if err := checkLog(ctx, s, "s-1"); err != nil {
		t.Fatal(err)
	}
}
