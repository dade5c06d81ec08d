package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/core"
)

// refusals counts the refused requests per quota.
func refusals(into map[string]int) func(string) { return func(q string) { into[q]++ } }

// Open text is in memory, so it is bounded per session, owner and workspace. Finishing
// blocks frees it.
func TestOpenTextIsBounded(t *testing.T) {
	seen := map[string]int{}
	w := newTestStore(t, Options{Quotas: Quotas{OpenSession: 4000, OpenOwner: 6000, OpenWorkspace: 7000}, Refused: refusals(seen)})
	text := strings.Repeat("x", 900)
	begin := func(c chat.Caller, id chat.SessionID) chat.TurnRef {
		t.Helper()
		if _, _, err := w.Create(ctx, c, chat.NewSession{ID: id, Agent: "demo"}); err != nil {
			t.Fatal(err)
		}
		w.append(c, id, chat.UserMessage{Text: "go"})
		return w.turn(id)
	}
	fill := func(ref chat.TurnRef) (n int) {
		t.Helper()
		for err := error(nil); err == nil; n++ {
			err = w.Preview(ctx, bot, ref.Session, piece(ref, chat.BlockID(fmt.Sprint("b", n)), 0, text))
			if err != nil {
				w.wantCode(err, chat.SlowDown)
				if chat.Public(err).Details["retry_after"] == nil {
					t.Errorf("no retry_after: %v", err)
				}
				break
			}
		}
		return n
	}
	one := begin(ann, "one")
	if n := fill(one); n != 4 {
		t.Errorf("a session of 4000 bytes has %d blocks of 900", n)
	}
	if n := fill(begin(ann, "two")); n != 2 {
		t.Errorf("a second session of the owner has %d blocks more", n)
	}
	if n := fill(begin(bob, "three")); n != 1 {
		t.Errorf("another owner has %d blocks in the workspace", n)
	}
	// A repeated piece is not counted again.
	if err := w.Preview(ctx, bot, "one", piece(one, "b0", 0, text)); err != nil {
		t.Error(err)
	}
	if seen[QuotaOpenText] != 3 {
		t.Errorf("refusals: %v", seen)
	}
	// A finished block frees bytes, and so does an erased session; a restart changes nothing.
	if _, err := w.Append(ctx, bot, "one", draft(one, chat.AgentText{Block: "b0", Text: text})); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if err := w.Preview(ctx, bot, "one", piece(one, "new", 0, text)); err != nil {
		t.Error(err)
	}
	w.wantCode(w.Preview(ctx, bot, "one", piece(one, "more", 0, text)), chat.SlowDown)
	if _, err := w.Erase(ctx, ann, "one"); err != nil {
		t.Fatal(err)
	}
	if n := w.openText.of("default/user:ann"); n > 4000 {
		t.Errorf("%d bytes of an erased session are still counted", n)
	}
}

// The sessions of an owner are bounded. Sessions in which it is only a member do not count.
func TestSessionsOfAnOwnerAreBounded(t *testing.T) {
	w := newTestStore(t, Options{Quotas: Quotas{Sessions: 3}})
	for i := range 5 {
		c := bob
		c.Scopes = append(c.Scopes, chat.ScopeAdmin) // administrators have no limit
		_, _, err := w.Create(ctx, c, chat.NewSession{ID: chat.SessionID(fmt.Sprint("bob-", i)), Members: []chat.Member{{Actor: ann.Actor, Role: chat.Owner}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(id chat.SessionID) error {
		_, _, err := w.Create(ctx, ann, chat.NewSession{ID: id, Agent: chat.NoAgent})
		return err
	}
	for _, id := range []chat.SessionID{"a", "b", "c", "a"} { // a is a repeated request
		if err := create(id); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	w.wantCode(create("d"), chat.SlowDown)
	_, err := w.Fork(ctx, ann, "a", chat.Fork{ID: "e"})
	w.wantCode(err, chat.SlowDown)
	w.restart()
	w.wantCode(create("d"), chat.SlowDown)
	if _, err := w.Erase(ctx, ann, "b"); err != nil {
		t.Fatal(err)
	}
	if err := create("d"); err != nil {
		t.Errorf("after an erase: %v", err)
	}
	w.wantCode(create("f"), chat.SlowDown)
}

// The bytes of events and files are bounded per owner and workspace. Erasing and removing
// free bytes; a restart changes nothing; administrators have no limit.
func TestStoredBytesAreBounded(t *testing.T) {
	seen := map[string]int{}
	var w *testStore
	files, err := artifact.Open(t.TempDir(), artifact.Options{Changed: func(id chat.SessionID, n int64) {
		if err := w.log.AddFiles(ctx, id, n); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	w = newTestStore(t, Options{Quotas: Quotas{StoredOwner: 40_000, StoredWorkspace: 60_000}, Artifacts: files, Refused: refusals(seen)})
	quiet := chat.NewSession{Agent: chat.NoAgent}
	w.begin("one", quiet)
	w.begin("two", quiet)
	quiet.ID = "bob"
	if _, _, err := w.Create(ctx, bob, quiet); err != nil {
		t.Fatal(err)
	}
	say := func(c chat.Caller, id chat.SessionID) error {
		_, err := w.Append(ctx, c, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: strings.Repeat("x", 4000)})})
		return err
	}
	put := func(c chat.Caller, id chat.SessionID, path string, size int) error {
		_, err := w.PutFile(ctx, c, id, core.FilePut{Path: path, Body: strings.NewReader(strings.Repeat("y", size))})
		return err
	}
	refused := func(err error) {
		t.Helper()
		w.wantCode(err, chat.SlowDown)
		if d := chat.Public(err).Details; d["quota"] != QuotaStored || d["retry_after"] == nil {
			t.Errorf("details: %v", d)
		}
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		ok(say(ann, "one"))
	}
	ok(put(ann, "one", "a", 10_000))
	ok(put(ann, "one", "a", 5_000)) // replaces the file
	ok(put(ann, "two", "b", 15_000))
	refused(put(ann, "two", "c", 20_000))
	if _, _, err := files.Get(ctx, "two", "c"); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("a refused file is there: %v", err)
	}
	ok(say(ann, "two"))
	w.restart()
	refused(say(ann, "one"))
	_, err = w.Fork(ctx, ann, "one", chat.Fork{ID: "fork"})
	refused(err)
	_, err = w.Update(ctx, ann, "one", chat.SessionUpdated{Metadata: []byte(`{"x":"` + strings.Repeat("x", 8000) + `"}`)})
	refused(err)
	refused(w.MayStore(ctx, ann, "one", 10_000))
	// Other owners can store up to the limit of the workspace.
	for range 4 {
		ok(say(bob, "bob"))
	}
	refused(say(bob, "bob"))
	admin := user("bob", chat.ScopeAdmin)
	ok(say(admin, "bob"))

	// Removing a file is allowed at the limit, and frees bytes.
	ok(w.RemoveFile(ctx, ann, "two", "b", ""))
	ok(say(ann, "one"))
	ok(put(ann, "one", "d", 9_000))
	refused(say(ann, "one"))
	if _, err := w.Erase(ctx, ann, "one"); err != nil {
		t.Fatal(err)
	}
	ok(say(ann, "two"))
	ok(put(ann, "two", "e", 9_000))
	// The files of a fork are counted.
	before, _, err := w.log.Stored(ctx, "", ann.Actor)
	ok(err)
	_, err = w.Fork(ctx, ann, "two", chat.Fork{ID: "again"})
	ok(err)
	size, err := w.log.SizeOf(ctx, "again")
	ok(err)
	if after, _, err := w.log.Stored(ctx, "", ann.Actor); err != nil || after != before+size || size < 9_000 {
		t.Errorf("a fork of %d bytes: %d before, %d after (%v)", size, before, after, err)
	}
	if seen[QuotaStored] != 7 {
		t.Errorf("refusals: %v", seen)
	}
	if r, err := w.log.Verify(ctx, nil); err != nil || r.Found > 0 {
		t.Error(r.Damage, err)
	}
}

// While the disk is nearly full, one writer cannot use all of the remaining space.
func TestNearlyFullDiskIsSharedByWriters(t *testing.T) {
	scarce := false
	w := newTestStore(t, Options{
		Quotas: Quotas{Shares: 64}, Scarce: func() (int64, bool) { return 640_000, scarce },
	})
	w.now.Store(1_700_000_000_000_000)
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent, Members: []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}})
	say := func(c chat.Caller) error {
		_, err := w.Append(ctx, c, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: strings.Repeat("x", 4000)})})
		return err
	}
	for range 5 {
		if err := say(ann); err != nil {
			t.Fatalf("there is enough: %v", err)
		}
	}
	scarce = true
	var err error
	for n := 0; err == nil; n++ {
		if err = say(ann); n > 3 {
			t.Fatal("one writer has more than its share")
		}
	}
	w.wantCode(err, chat.SlowDown)
	if err := say(bob); err != nil {
		t.Errorf("another one: %v", err)
	}
	if _, _, err := w.Read(ctx, ann, id, chat.Range{}); err != nil {
		t.Errorf("reading: %v", err)
	}
	w.now.Add(sharePeriod.Microseconds())
	if err := say(ann); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}
