package session

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Each operation is tried as each kind of caller.
func TestEveryOperationChecksItsCaller(t *testing.T) {
	const (
		ok = chat.Code("")
		no = chat.Denied
		nf = chat.NotFound
	)
	callers := []string{"stranger", "viewer", "answerer", "owner", "agent", "other agent", "other workspace", "admin"}
	caller := map[string]chat.Caller{
		"stranger":        user("eve", chat.ScopeAgent),
		"viewer":          user("vic", chat.ScopeAgent),
		"answerer":        bob,
		"owner":           ann,
		"agent":           bot,
		"other agent":     {Actor: chat.Actor{Kind: chat.Agent, ID: "else"}, Scopes: []chat.Scope{chat.ScopeAgent}},
		"other workspace": {Actor: ann.Actor, Workspace: "elsewhere", Scopes: []chat.Scope{chat.ScopeUser, chat.ScopeAgent}},
		"admin":           {Actor: chat.Actor{Kind: chat.User, ID: "root"}, Workspace: "elsewhere", Scopes: []chat.Scope{chat.ScopeAdmin}, AllWorkspaces: true},
		"other admin":     {Actor: chat.Actor{Kind: chat.User, ID: "root"}, Workspace: "elsewhere", Scopes: []chat.Scope{chat.ScopeAdmin}},
	}
	type env struct {
		w   *testStore
		id  chat.SessionID
		ev  chat.Event
		ask string
	}
	rows := []struct {
		name string
		do   func(e env, c chat.Caller) error
		want [8]chat.Code // in the order of callers
	}{
		{"Get", func(e env, c chat.Caller) error { _, err := e.w.Get(ctx, c, e.id); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"ByID", func(e env, c chat.Caller) error {
			id, _ := chat.ParseID(chat.EventPrefix, string(e.ev.ID))
			_, _, err := e.w.ByID(ctx, c, id)
			return err
		}, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Read", func(e env, c chat.Caller) error { _, _, err := e.w.Read(ctx, c, e.id, chat.Range{}); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Fact", func(e env, c chat.Caller) error { _, err := e.w.Fact(ctx, c, e.id, 1); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Event", func(e env, c chat.Caller) error { _, err := e.w.Event(ctx, c, e.id, 1); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Ends", func(e env, c chat.Caller) error { _, err := e.w.Ends(ctx, c, e.id, 1); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Blocks", func(e env, c chat.Caller) error { _, err := e.w.Blocks(ctx, c, e.id); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"State", func(e env, c chat.Caller) error { _, err := e.w.State(ctx, c, e.id); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Snapshot", func(e env, c chat.Caller) error { _, err := e.w.Snapshot(ctx, c, e.id, 5); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Items", func(e env, c chat.Caller) error { _, err := e.w.Items(ctx, c, e.id, 0, 5); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Search", func(e env, c chat.Caller) error { _, err := e.w.Search(ctx, c, e.id, "x", 0, 5); return err }, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Watch", func(e env, c chat.Caller) error {
			for _, err := range e.w.Watch(ctx, c, e.id, core.Start{}, nil) {
				return err
			}
			return nil
		}, [8]chat.Code{nf, ok, ok, ok, ok, nf, nf, ok}},
		{"Append user.message", func(e env, c chat.Caller) error {
			_, err := e.w.Append(ctx, c, e.id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"}).As("k")})
			return err
		}, [8]chat.Code{nf, no, ok, ok, ok, nf, nf, ok}},
		{"Append agent.status", func(e env, c chat.Caller) error {
			_, err := e.w.Append(ctx, c, e.id, []chat.Draft{chat.NewDraft(chat.AgentStatus{Message: "x"})})
			return err
		}, [8]chat.Code{nf, no, no, no, ok, nf, nf, ok}},
		{"Append session.completed", func(e env, c chat.Caller) error {
			_, err := e.w.Append(ctx, c, e.id, []chat.Draft{chat.NewDraft(chat.SessionCompleted{})})
			return err
		}, [8]chat.Code{nf, no, no, no, ok, nf, nf, ok}},
		{"Append turn.completed", func(e env, c chat.Caller) error {
			_, err := e.w.Append(ctx, c, e.id, []chat.Draft{chat.NewDraft(chat.TurnCompleted{TurnID: e.w.turn(e.id).Turn, Outcome: chat.Done})})
			return err
		}, [8]chat.Code{nf, no, no, no, no, nf, nf, no}},
		{"Append session.updated", func(e env, c chat.Caller) error {
			_, err := e.w.Append(ctx, c, e.id, []chat.Draft{chat.NewDraft(chat.SessionUpdated{Members: &[]chat.Member{}})})
			return err
		}, [8]chat.Code{nf, no, no, no, no, nf, nf, no}},
		{"Preview", func(e env, c chat.Caller) error {
			return e.w.Preview(ctx, c, e.id, []chat.Preview{{Block: "b", Text: "x"}})
		}, [8]chat.Code{nf, no, no, no, ok, nf, nf, ok}},
		{"Answer", func(e env, c chat.Caller) error {
			_, err := e.w.Answer(ctx, c, e.id, e.ask, chat.Answer{Text: "x"})
			return err
		}, [8]chat.Code{nf, no, ok, ok, no, nf, nf, ok}},
		{"Stop", func(e env, c chat.Caller) error { _, err := e.w.Stop(ctx, c, e.id, "", ""); return err }, [8]chat.Code{nf, no, ok, ok, ok, nf, nf, ok}},
		{"Update", func(e env, c chat.Caller) error {
			title := "new"
			_, err := e.w.Update(ctx, c, e.id, chat.SessionUpdated{Title: &title})
			return err
		}, [8]chat.Code{nf, no, no, ok, no, nf, nf, ok}},
		{"Import", func(e env, c chat.Caller) error {
			_, err := e.w.Import(ctx, c, "fresh", iter.Seq2[chat.Fact, error](func(yield func(chat.Fact, error) bool) {
				facts, _, _ := e.w.log.Read(ctx, e.id, chat.Range{})
				for _, f := range facts {
					f.JSON = []byte(strings.Replace(string(f.JSON), `"session_id":"s"`, `"session_id":"fresh"`, 1))
					yield(f, nil)
					return // a log of one event
				}
			}))
			if chat.CodeOf(err) == chat.Invalid {
				err = nil // access was granted; the journal refused the log
			}
			return err
		}, [8]chat.Code{no, no, no, no, no, no, no, ok}},
		{"Erase", func(e env, c chat.Caller) error { _, err := e.w.Erase(ctx, c, e.id); return err }, [8]chat.Code{nf, no, no, ok, no, nf, nf, ok}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			want := row.want[:]
			want = append(want, want[6]) // an admin of another workspace has the rights of any other user
			for i, name := range append(callers, "other admin") {
				w := startTestStore(t, Options{})
				e := env{w: w, id: w.begin("s", chat.NewSession{Members: []chat.Member{
					{Actor: user("vic").Actor, Role: chat.Viewer}, {Actor: bob.Actor, Role: chat.Answerer}}})}
				e.ev = w.say(e.id, "hello")
				e.ask = w.ask(e.id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
				err := row.do(e, caller[name])
				if got := chat.CodeOf(err); got != want[i] {
					t.Errorf("%s: %q (%v), want %q", name, got, err, want[i])
				}
				if want[i] == nf {
					// A session that the caller may not see gives the same error as a missing one.
					ghost := e
					ghost.id = "ghost"
					ghost.ev.ID = chat.EventID(chat.MakeID(core.NumberFor("ghost", 0), 1).Text(chat.EventPrefix))
					if row.name != "Append turn.completed" {
						missing := row.do(ghost, caller[name])
						if a, b := strings.ReplaceAll(err.Error(), `"s"`, `"ghost"`), missing.Error(); a != b {
							t.Errorf("%s: %q tells it from %q", name, a, b)
						}
					}
				}
				w.close()
			}
		})
	}
}

func TestListHasOnlySessionsOfTheCaller(t *testing.T) {
	w := newTestStore(t, Options{})
	w.begin("a")
	w.begin("b", chat.NewSession{Members: []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}})
	for c, want := range map[string][]chat.SessionID{"ann": {"b", "a"}, "bob": {"b"}, "eve": nil} {
		page, err := w.List(ctx, user(c), core.Filter{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var got []chat.SessionID
		for _, s := range page.Sessions {
			got = append(got, s.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s sees %v", c, got)
		}
	}
}

// System sessions belong to the server: a client that uses such an id gets a session of
// its own, lists leave them out, and an admin may only read them.
func TestSystemSessionsBelongToTheServer(t *testing.T) {
	w := newTestStore(t, Options{DefaultAgent: chat.NoAgent})
	local, root := user("root", chat.ScopeAdmin), user("root", chat.ScopeAdmin)
	root.AllWorkspaces = true
	mine, _, err := w.Create(ctx, user("ann"), chat.NewSession{ID: "sys-book"})
	if err != nil || mine.ID.System() {
		t.Fatalf("began %q: %v", mine.ID, err)
	}
	if same, err := w.Resolve(ctx, user("ann"), "sys-book"); err != nil || same != mine.ID {
		t.Errorf("the id leads to %q: %v", same, err)
	}
	if _, _, err := w.Create(ctx, chat.Trusted, chat.NewSession{ID: "sys-book"}); err != nil {
		t.Fatal(err)
	}
	note := []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "mine"})}
	if _, err := w.Append(ctx, chat.Trusted, "sys-book", note); err != nil {
		t.Error(err)
	}
	_, err = w.Append(ctx, root, "sys-book", note)
	w.wantCode(err, chat.Denied)
	_, err = w.Erase(ctx, root, "sys-book")
	w.wantCode(err, chat.Denied)
	for _, c := range []chat.Caller{user("eve"), local} { // an admin of one workspace does not see them either
		_, err = w.Get(ctx, c, "sys-book")
		w.wantCode(err, chat.NotFound)
	}
	if page, err := w.List(ctx, local, core.Filter{System: true}); err != nil || slices.ContainsFunc(page.Sessions, func(s chat.Session) bool { return s.ID == "sys-book" }) {
		t.Errorf("an admin of one workspace has a list of them: %+v, %v", page, err)
	}
	fork, err := w.Fork(ctx, user("ann"), mine.ID, chat.Fork{ID: "sys-grants"})
	if err != nil || fork.ID.System() {
		t.Errorf("forked to %q: %v", fork.ID, err)
	}
	for _, f := range []core.Filter{{}, {System: true}} {
		page, err := w.List(ctx, root, f)
		seen := slices.ContainsFunc(page.Sessions, func(s chat.Session) bool { return s.ID == "sys-book" })
		if err != nil || seen != f.System {
			t.Errorf("listed with %+v: %v, %v", f, seen, err)
		}
	}
}

func TestRemovedMembersLoseAccess(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent, Members: []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}})
	r := newReader(chat.Cursor{})
	ended := make(chan error, 1)
	go func() { ended <- r.run(t.Context(), w.Sessions, bob, id) }()
	r.until(func() bool { return len(r.log) == 1 })
	title := "x"
	if _, err := w.Update(ctx, ann, id, chat.SessionUpdated{Title: &title}); err != nil {
		t.Fatal(err)
	}
	r.until(func() bool { return len(r.log) == 2 })
	if _, err := w.Update(ctx, ann, id, chat.SessionUpdated{Members: &[]chat.Member{}}); err != nil {
		t.Fatal(err)
	}
	w.wantCode(<-ended, chat.NotFound)
	if len(r.log) != 2 {
		t.Fatal("saw what came after")
	}
	_, err := w.Snapshot(ctx, bob, id, 1)
	w.wantCode(err, chat.NotFound)

	// The previous agent of the session loses access, too.
	id = w.begin("t")
	r = newReader(chat.Cursor{})
	go func() { ended <- r.run(t.Context(), w.Sessions, bot, id) }()
	r.until(func() bool { return len(r.log) == 1 })
	other := "other"
	if _, err := w.Update(ctx, ann, id, chat.SessionUpdated{Agent: &other}); err != nil {
		t.Fatal(err)
	}
	w.wantCode(<-ended, chat.NotFound)
}

// The session record that a sequencer caches may be stale.
func TestAccessIsDecidedByTheCurrentState(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	r := w.acquire(id)
	defer r.release()
	old := *r.session.Load()
	old.Members = []chat.Member{{Actor: bob.Actor, Role: chat.Owner}}
	r.session.Store(&old)
	_, err := w.State(ctx, bob, id)
	w.wantCode(err, chat.NotFound)
	_, err = w.Snapshot(ctx, bob, id, 1)
	w.wantCode(err, chat.NotFound)
	_, err = w.Append(ctx, bob, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})})
	w.wantCode(err, chat.NotFound)
	_, err = w.Stop(ctx, bob, id, "", "")
	w.wantCode(err, chat.NotFound)
}

func TestCreateWithAForeignIDMakesAnotherSession(t *testing.T) {
	w := newTestStore(t, Options{})
	n := chat.NewSession{ID: "x", Title: "T", Metadata: []byte(`{ "a": "<1>" }`), Policy: chat.Steer}
	first, created, err := w.Create(ctx, ann, n)
	if err != nil || !created || first.ID != "x" || first.Agent != "demo" {
		t.Fatal(first, created, err)
	}
	for range 2 {
		again, created, err := w.Create(ctx, ann, n)
		if err != nil || created || again.ID != "x" || string(again.Metadata) != `{"a":"<1>"}` {
			t.Fatal(again, created, err)
		}
		w.restart()
	}
	for _, change := range []func(*chat.NewSession){
		func(n *chat.NewSession) { n.Title = "U" }, func(n *chat.NewSession) { n.Policy = "" },
		func(n *chat.NewSession) { n.Members = []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}} },
		func(n *chat.NewSession) { n.Metadata = nil },
	} {
		other := n
		change(&other)
		sess, _, err := w.Create(ctx, ann, other)
		w.wantCode(err, chat.Conflict)
		if sess.ID != "" {
			t.Fatal("a refused session was returned")
		}
	}
	// Bob may use the id, and gets his own session.
	his, created, err := w.Create(ctx, bob, n)
	if err != nil || !created || his.ID == "x" || his.Owner.ID != "bob" {
		t.Fatal(his, created, err)
	}
	if again, created, err := w.Create(ctx, bob, n); err != nil || created || again.ID != his.ID {
		t.Fatal(again, created, err)
	}
	if got, err := w.Resolve(ctx, bob, "x"); err != nil || got != his.ID {
		t.Fatal(got, err)
	}
	if got, _ := w.Get(ctx, ann, "x"); got.Last != 1 {
		t.Fatal("bob wrote into ann's session")
	}
	// An event id of ann's session does not resolve to bob's session.
	_, _, err = w.ByID(ctx, bob, chat.MakeID(w.state("x").Number, 1))
	w.wantCode(err, chat.NotFound)

	for _, foreign := range []string{"run/1 ä", "plain"} {
		one, created, err := w.Ensure(ctx, ann, foreign, chat.NewSession{Title: "T"})
		if err != nil || !created {
			t.Fatal(err)
		}
		two, created, err := w.Ensure(ctx, ann, foreign, chat.NewSession{Title: "other words"})
		if err != nil || created || two.ID != one.ID {
			t.Fatal(two, created, err)
		}
		three, created, err := w.Ensure(ctx, bob, foreign, chat.NewSession{})
		if err != nil || !created || three.ID == one.ID {
			t.Fatal(three, created, err)
		}
		if _, err := w.Erase(ctx, ann, one.ID); err != nil {
			t.Fatal(err)
		}
		_, _, err = w.Ensure(ctx, ann, foreign, chat.NewSession{})
		w.wantCode(err, chat.Gone)
	}
	for _, bad := range []string{"", strings.Repeat("x", 1025)} {
		_, _, err = w.Ensure(ctx, ann, bad, chat.NewSession{})
		w.wantCode(err, chat.Invalid)
	}
	_, _, err = w.Create(ctx, chat.Caller{Actor: ann.Actor}, chat.NewSession{})
	w.wantCode(err, chat.Denied)
	if sess, _, err := w.Create(ctx, ann, chat.NewSession{}); err != nil || !strings.HasPrefix(string(sess.ID), "s-") {
		t.Fatal(sess, err)
	}
}

func TestEraseRemovesTheSession(t *testing.T) {
	var erased []chat.SessionID
	files := &fakeFiles{}
	w := newTestStore(t, Options{Artifacts: files, Observers: []Observer{{Erased: func(id chat.SessionID) { erased = append(erased, id) }}}})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	w.show(ref, "b", 0, "x")
	r := newReader(chat.Cursor{})
	ended := make(chan error, 1)
	go func() { ended <- r.run(t.Context(), w.Sessions, ann, id) }()
	r.until(func() bool { return len(r.log) == 3 })
	files.err = chat.Errorf(chat.Unavailable, "the disk is away")
	_, err := w.Erase(ctx, ann, id)
	w.wantCode(err, chat.Unavailable)
	files.err = nil
	receipt, err := w.Erase(ctx, ann, id) // a repeated call returns the receipt again
	if err != nil || receipt.Events != 3 || receipt.Artifacts != 2 || receipt.Bytes < 20 {
		t.Fatal(receipt, err)
	}
	w.wantCode(<-ended, chat.Gone)
	if !slices.Equal(erased, []chat.SessionID{id}) {
		t.Fatal(erased)
	}
	for range 2 {
		_, err = w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})})
		w.wantCode(err, chat.Gone)
		w.wantCode(w.Preview(ctx, bot, id, piece(ref, "b", 1, "y")), chat.Gone)
		w.wantCode(w.EndTurn(ctx, ref, chat.Done, ""), chat.Gone)
		_, _, err = w.Create(ctx, ann, chat.NewSession{ID: id})
		w.wantCode(err, chat.Gone)
		_, err = w.Stop(ctx, ann, id, "", "")
		w.wantCode(err, chat.Gone)
		_, err = w.Erase(ctx, ann, id)
		w.wantCode(err, chat.Gone)
		if b := w.hub.Blocks(id); b != nil {
			t.Fatal("blocks are left", b)
		}
		w.restart()
	}
}

type fakeFiles struct {
	err    error
	merged []string // target folders
}

func (f *fakeFiles) DeleteSession(context.Context, chat.SessionID) (int, int64, error) {
	if f.err != nil {
		return 0, 0, f.err
	}
	return 1, 10, nil
}

func (f *fakeFiles) Usage(context.Context, chat.SessionID) (int, int64, error) { return 2, 20, nil }

func (f *fakeFiles) CopySession(_ context.Context, _, _ chat.SessionID, _ []core.FilePut, commit func() error) error {
	if f.err != nil {
		return f.err
	}
	return commit()
}

func (f *fakeFiles) Put(_ context.Context, _ chat.SessionID, path, mediaType string, _ io.Reader, w core.FileWrite) (chat.FileInfo, error) {
	info := chat.FileInfo{Path: path, MediaType: mediaType}
	if f.err != nil {
		return info, f.err
	}
	return info, w.Commit(info)
}

func (f *fakeFiles) Remove(_ context.Context, _ chat.SessionID, path string, _ chat.Seq, commit func(chat.FileInfo) error) error {
	if f.err != nil {
		return f.err
	}
	return commit(chat.FileInfo{Path: path})
}

func (f *fakeFiles) FinishChanges(context.Context, func(core.FileChange) (bool, error)) error {
	return f.err
}

func (f *fakeFiles) Merge(_ context.Context, _ chat.SessionID, _ []string, to string) ([]string, error) {
	f.merged = append(f.merged, to)
	return []string{to + "result.txt"}, f.err
}
