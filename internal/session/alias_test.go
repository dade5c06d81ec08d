package session

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

// An id that a client always uses must not lead to a session that somebody else
// began under it and added the caller to.
func TestAMembershipDoesNotTakeAnID(t *testing.T) {
	for _, victim := range []chat.Caller{bob, user("root", chat.ScopeUser, chat.ScopeAdmin)} {
		for _, role := range []chat.Role{chat.Viewer, chat.Answerer, chat.Owner} {
			w := newWorld(t, Options{DefaultAgent: chat.NoAgent})
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

// A caller's alias goes before a session of others with the same id, also when
// the caller becomes a member of that session later.
func TestAnAliasGoesBeforeSessionsOfOthers(t *testing.T) {
	w := newWorld(t, Options{DefaultAgent: chat.NoAgent})
	w.begin("chat-1")
	his, _, err := w.Create(ctx, bob, chat.NewSession{ID: "chat-1", Title: "his"})
	if err != nil {
		t.Fatal(err)
	}
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Owner}}
	if _, err := w.Update(ctx, ann, "chat-1", chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with the session in memory, and without
		if id, err := w.Resolve(ctx, bob, "chat-1"); err != nil || id != his.ID {
			t.Fatalf("the alias leads to %q: %v", id, err)
		}
		if own, err := w.Own(ctx, bob, "chat-1"); err != nil || own.ID != his.ID {
			t.Fatalf("the alias leads to %q: %v", own.ID, err)
		}
		if same, created, err := w.Create(ctx, bob, chat.NewSession{ID: "chat-1", Title: "his"}); err != nil || created || same.ID != his.ID {
			t.Fatalf("the alias leads to %q: %v", same.ID, err)
		}
		// What he cannot reach by its id is not offered to him under it.
		page, err := w.List(ctx, bob, chat.Filter{Limit: 10})
		if err != nil || len(page.Sessions) != 1 || page.Sessions[0].ID != his.ID {
			t.Fatalf("%+v, %v", page.Sessions, err)
		}
		// For the one who began it nothing has changed.
		if id, err := w.Resolve(ctx, ann, "chat-1"); err != nil || id != "chat-1" {
			t.Fatal(id, err)
		}
		w.restart()
	}
	// An erased session's alias does not lead elsewhere.
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
func TestAccept(t *testing.T) {
	w := newWorld(t, Options{DefaultAgent: chat.NoAgent})
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
	// His own one has its id still.
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

// An alias gives no access to the session whose id it is spelled like: dialects
// keep records by session id and ask here whether the caller may see them.
func TestAnAliasIsNoAccess(t *testing.T) {
	w := newWorld(t, Options{DefaultAgent: chat.NoAgent})
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
