package session

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A child has the owner and members of its parent. System sessions and children cannot
// have children.
func TestChildHasTheMembersOfItsParent(t *testing.T) {
	w := newTestStore(t, Options{})
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}
	far := ann
	far.Workspace = "elsewhere"
	if _, _, err := w.Create(ctx, far, chat.NewSession{ID: "parent", Members: members}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds the same child
		child, _, err := w.CreateChild(ctx, "parent", chat.NewSession{ID: "child", Agent: "helper", Title: "Part"}, "g1")
		if err != nil {
			t.Fatal(err)
		}
		if child.Parent != "parent" || child.Grant != "g1" || child.Workspace != "elsewhere" || !child.Owner.Same(ann.Actor) || len(child.Members) != 1 || child.Agent != "helper" {
			t.Fatalf("%+v", child)
		}
		w.restart() // the record is rebuilt from the log
		if again, err := w.Get(ctx, chat.Trusted, "child"); err != nil || again.Parent != "parent" || again.Grant != "g1" {
			t.Fatal(again, err)
		}
	}
	if _, _, err := w.Create(ctx, chat.Trusted, chat.NewSession{ID: "sys-x", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Create(ctx, bob, chat.NewSession{ID: "his"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		parent, id chat.SessionID
		want       chat.Code
	}{
		"of a child":                   {"child", "grandchild", chat.Denied},
		"its own parent":               {"parent", "parent", chat.Invalid},
		"of a system session":          {"sys-x", "c2", chat.Denied},
		"a system session":             {"parent", "sys-y", chat.Denied},
		"of a missing session":         {"none", "c2", chat.NotFound},
		"id of another user's session": {"parent", "his", chat.Conflict},
		"of another user's session":    {"his", "child", chat.Conflict},
	} {
		_, _, err := w.CreateChild(ctx, c.parent, chat.NewSession{ID: c.id, Agent: "helper"}, "g1")
		if chat.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
