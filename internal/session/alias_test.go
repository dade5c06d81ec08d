package session

import (
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// A client that always uses the same id must not reach a session that another user created
// with this id and added the caller to.
func TestMembershipDoesNotChangeWhatAnIDNames(t *testing.T) {
	for _, victim := range []chat.Caller{bob, user("root", chat.ScopeUser, chat.ScopeAdmin)} {
		for _, role := range []chat.Role{chat.Viewer, chat.Answerer, chat.Owner} {
			w := newTestStore(t, Options{DefaultAgent: chat.NoAgent})
			trap := w.begin("nemo-static", chat.NewSession{Members: []chat.Member{{Actor: victim.Actor, Role: role}}})
			_, err := w.Own(ctx, victim, "nemo-static")
			w.wantCode(err, chat.NotFound)
			his, created, err := w.Ensure(ctx, victim, "nemo-static", chat.NewSession{})
			if err != nil || !created || his.ID == trap || !his.Owner.Same(victim.Actor) {
				t.Fatalf("%s: %+v, %v, %v", role, his, created, err)
			}
			for range 2 {
				again, created, err := w.Ensure(ctx, victim, "nemo-static", chat.NewSession{Title: "another"})
				if err != nil || created || again.ID != his.ID {
					t.Fatalf("%s: %+v, %v, %v", role, again, created, err)
				}
				w.restart()
			}
			if got := w.state(trap).Last; got != 1 {
				t.Errorf("%s: the other session has %d events", role, got)
			}
		}
	}
}

// A caller's alias takes precedence over another owner's session with the same id, even if
// the caller becomes a member of that session later.
func TestAliasTakesPrecedenceOverForeignSessions(t *testing.T) {
	w := newTestStore(t, Options{DefaultAgent: chat.NoAgent})
	w.begin("chat-1")
	his, _, err := w.Create(ctx, bob, chat.NewSession{ID: "chat-1", Title: "his"})
	if err != nil {
		t.Fatal(err)
	}
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Owner}}
	if _, err := w.Update(ctx, ann, "chat-1", chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with the session cached, and without
		if id, err := w.Resolve(ctx, bob, "chat-1"); err != nil || id != his.ID {
			t.Fatalf("the alias leads to %q: %v", id, err)
		}
		if own, err := w.Own(ctx, bob, "chat-1"); err != nil || own.ID != his.ID {
			t.Fatalf("the alias leads to %q: %v", own.ID, err)
		}
		if same, created, err := w.Create(ctx, bob, chat.NewSession{ID: "chat-1", Title: "his"}); err != nil || created || same.ID != his.ID {
			t.Fatalf("the alias leads to %q: %v", same.ID, err)
		}
		// The list leaves out a session that bob cannot reach by its id.
		page, err := w.List(ctx, bob, core.Filter{Limit: 10})
		if err != nil || len(page.Sessions) != 1 || page.Sessions[0].ID != his.ID {
			t.Fatalf("%+v, %v", page.Sessions, err)
		}
		// Nothing has changed for the user who created it.
		if id, err := w.Resolve(ctx, ann, "chat-1"); err != nil || id != "chat-1" {
			t.Fatal(id, err)
		}
		w.restart()
	}
	// The alias of an erased session does not resolve to another session.
	if _, err := w.Erase(ctx, bob, his.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.Resolve(ctx, bob, "chat-1")
	w.wantCode(err, chat.Gone)
	_, _, err = w.Ensure(ctx, bob, "chat-1", chat.NewSession{})
	w.wantCode(err, chat.Gone)
}

// A session that the caller accepted is reached by its id; access still depends
// on the membership.
func TestAcceptedSessionIsReachedByItsID(t *testing.T) {
	w := newTestStore(t, Options{DefaultAgent: chat.NoAgent})
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}
	w.begin("shared", chat.NewSession{Members: members})
	w.begin("other")
	_, err := w.Accept(ctx, bob, "other")
	w.wantCode(err, chat.NotFound)
	his, _, err := w.Ensure(ctx, bob, "shared", chat.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if sess, err := w.Accept(ctx, bob, "shared"); err != nil || sess.ID != "shared" {
			t.Fatal(sess, err)
		}
	}
	for range 2 {
		sess, created, err := w.Ensure(ctx, bob, "shared", chat.NewSession{})
		if err != nil || created || sess.ID != "shared" {
			t.Fatal(sess, created, err)
		}
		w.restart()
	}
	// His own session keeps its id.
	if id, err := w.Resolve(ctx, bob, his.ID); err != nil || id != his.ID {
		t.Fatal(id, err)
	}
	if _, err := w.Erase(ctx, bob, his.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Own(ctx, bob, "shared"); err != nil {
		t.Fatal("erasing the session that had the alias before closed it:", err)
	}
	if _, err := w.Update(ctx, ann, "shared", chat.SessionUpdated{Members: &[]chat.Member{}}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Own(ctx, bob, "shared")
	w.wantCode(err, chat.NotFound)
	_, _, err = w.Ensure(ctx, bob, "shared", chat.NewSession{})
	w.wantCode(err, chat.NotFound)
	_, _, err = w.Create(ctx, bob, chat.NewSession{ID: "shared"})
	w.wantCode(err, chat.NotFound)
}

// An alias gives no access to the session whose id is equal to the alias. Dialects keep
// records by session id and check access to them here.
func TestAliasGivesNoAccess(t *testing.T) {
	w := newTestStore(t, Options{DefaultAgent: chat.NoAgent})
	id := w.begin("agent-1")
	if _, _, err := w.Create(ctx, bob, chat.NewSession{ID: id}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Get(ctx, bob, id)
	w.wantCode(err, chat.NotFound)
	_, err = w.State(ctx, bob, id)
	w.wantCode(err, chat.NotFound)
	_, err = w.Append(ctx, bob, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "x"})})
	w.wantCode(err, chat.NotFound)
	if got := w.state(id).Last; got != 1 {
		t.Fatalf("the session has %d events", got)
	}
}

func TestReplacedAliasNamesASessionOfTheCaller(t *testing.T) {
	w := newTestStore(t, Options{DefaultAgent: chat.NoAgent})
	first, second := w.begin("first"), w.begin("second")
	for _, id := range []chat.SessionID{first, second} {
		if err := w.ReplaceAlias(ctx, ann, "chat/1", id); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if own, err := w.Own(ctx, ann, "chat/1"); err != nil || own.ID != id {
				t.Fatalf("the alias names %q: %v", own.ID, err)
			}
			w.restart()
		}
	}
	w.wantCode(w.ReplaceAlias(ctx, ann, "second", first), chat.Invalid)
	w.wantCode(w.ReplaceAlias(ctx, bob, "chat/1", first), chat.NotFound)
	_, err := w.Own(ctx, bob, "chat/1")
	w.wantCode(err, chat.NotFound)
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Owner}}
	if _, err := w.Update(ctx, ann, first, chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	w.wantCode(w.ReplaceAlias(ctx, bob, "chat/1", first), chat.Denied)
}
