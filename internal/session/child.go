package session

import (
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// CreateChild creates a session on behalf of the agent of another session, its parent.
// The child has the owner, the members and the workspace of its parent, and it may wake
// the parent.
//
// There is no caller, because only the server creates children; a request of a client
// cannot name a parent.
func (s *Sessions) CreateChild(ctx context.Context, parent chat.SessionID, n chat.NewSession, grant string) (child chat.Session, created bool, err error) {
	of, err := s.log.Record(ctx, parent)
	if err != nil {
		return child, false, err
	}
	if err := n.ID.Validate(); err != nil {
		return child, false, err
	}
	switch {
	case parent.System() || n.ID.System():
		return child, false, chat.Errorf(chat.Denied, "a system session cannot have a child or be one")
	case of.Parent != "":
		return child, false, chat.Errorf(chat.Denied, "a child session cannot have children; ask the parent to start another one")
	case n.ID == parent:
		return child, false, chat.Errorf(chat.Invalid, "session %q cannot be its own parent", string(parent))
	}
	c := chat.Caller{Actor: of.Owner, Workspace: of.Workspace, Scopes: []chat.Scope{chat.ScopeUser}}
	n.Members = of.Members
	child, created, err = s.begin(ctx, c, n, chat.SessionStarted{
		Agent: n.Agent, Title: n.Title, Workspace: of.Workspace, Members: n.Members, Parent: parent, Grant: grant,
	})
	if _, taken := err.(errForeign); taken {
		err = errTaken(n.ID)
	}
	return child, created, err
}

// detached returns the facts of an imported log. If the log gives the session a parent,
// a grant or a sidecar, detached adds an event that removes them: an imported log is
// untrusted, and only the server sets these fields.
func (s *Sessions) detached(ctx context.Context, r *sequencer, facts iter.Seq2[chat.Fact, error]) iter.Seq2[chat.Fact, error] {
	return func(yield func(chat.Fact, error) bool) {
		st := &chat.State{}
		for f, err := range facts {
			if !yield(f, err) || err != nil {
				return
			}
			e, _ := f.Event() // the reader of this sequence has validated it
			if id, ok := chat.ParseID(chat.EventPrefix, string(e.ID)); ok {
				st.Number, _, _ = id.Parts()
			}
			st.Apply(&e)
			st.Head = f.Hash()
		}
		if st.Session.Parent == "" && st.Session.Grant == "" && st.Session.ServedBy == "" {
			return
		}
		if st.Number == 0 {
			var err error
			if st.Number, _, err = s.log.Number(ctx, r.id); err != nil {
				yield(chat.Fact{}, err)
				return
			}
		}
		d := &decision{session: r.id, state: st, now: s.now(), lastAt: st.LastAt}
		d.addSystem(chat.SessionUpdated{Detached: true}, "", "")
		yield(d.facts[0], nil)
	}
}
