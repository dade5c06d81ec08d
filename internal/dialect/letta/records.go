package letta

import (
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/record"
)

// The kinds of records.
const (
	kindAgent        = "agent"
	kindConversation = "conversation"
	kindIdentity     = "identity"
	kindGroup        = "group"
)

// newSets returns the agents, conversations, identities, groups and callbacks of all workspaces. A callback is stored
// with the conversation of its run.
func (d *Dialect) newSets() *record.Sets {
	writeTime := time.Duration(0)
	if d.opt.OtherNodes {
		writeTime = time.Minute
	}
	return record.NewSets(record.SetOptions{
		Sessions: d.opt.Sessions, Name: "letta", Title: "Letta", Logger: d.log,
		Kinds: map[string]record.Kind{
			kindAgent:        {OfSession: true, ErasesSession: true},
			kindConversation: {OfSession: true, ErasesSession: true},
			kindCallback:     {OfSession: true},
		},
		DeletedWith: deletedWith,
		Opened:      d.enqueueUnsent,
		WriteTime:   writeTime,
	})
}

// session returns a session that the caller may see, nil when there is none.
func (q *request) session(id string) (*chat.Session, error) {
	sess, err := q.opt.Sessions.Get(q.ctx, q.caller, chat.SessionID(id))
	if absent(err) {
		return nil, nil
	}
	return &sess, err
}

// deletedWith returns what is deleted with an agent: the conversations of its owner and of the caller who deletes it.
// Conversations of others stay theirs, without the agent.
func deletedWith(agent *record.Record, all []*record.Record, by []chat.Actor) (ids []string) {
	if agent.Kind != kindAgent {
		return nil
	}
	for _, r := range all {
		if r.Kind == kindConversation && r.Text("agent_id") == agent.ID && (r.Owner.Same(agent.Owner) || slices.ContainsFunc(by, r.Owner.Same)) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// enqueueUnsent enqueues the callbacks that an earlier process did not send.
func (d *Dialect) enqueueUnsent(records *record.Set) {
	for _, r := range records.List(kindCallback) {
		if r.Fields["sent_at"] == nil {
			d.enqueue(records.Workspace, r.ID)
		}
	}
}

// Erased reports that a session was erased, by any dialect. Its record is deleted. It does not block.
func (d *Dialect) Erased(id chat.SessionID) { d.sets.Erased(id) }

// Published reports that a session has new events, also those of another node. It does not block.
func (d *Dialect) Published(id chat.SessionID, _ []core.Entry) { d.sets.Published(id) }

// mine reports whether the caller may see a record.
func mine(c chat.Caller, r *record.Record) bool {
	return r != nil && (r.Owner.Same(c.Actor) || c.Has(chat.ScopeAdmin))
}

// absent reports whether an error says that something does not exist, or no longer.
func absent(err error) bool {
	code := chat.CodeOf(err)
	return err != nil && (code == chat.NotFound || code == chat.Gone)
}
