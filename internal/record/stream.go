package record

import (
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Sessions is the part of the session rules that logs need.
type Sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
}

// stream reads and writes one system session.
type stream struct {
	sessions Sessions
	id       chat.SessionID
	title    string
	caller   chat.Caller
	last     chat.Seq // the last event that was read
}

// read calls take with each event after the last one that was read.
func (s *stream) read(ctx context.Context, take func(*chat.Event)) error {
	for e, err := range s.sessions.Events(ctx, s.caller, s.id, chat.Range{After: s.last}) {
		if err != nil {
			return err
		}
		s.last = e.Seq
		take(&e)
	}
	return nil
}

// append stores events, and creates the session if there is none.
func (s *stream) append(ctx context.Context, drafts ...chat.Draft) ([]chat.Event, error) {
	events, err := s.sessions.Append(ctx, s.caller, s.id, drafts)
	if chat.CodeOf(err) != chat.NotFound {
		return events, err
	}
	if _, _, err := s.sessions.Create(ctx, s.caller, chat.NewSession{ID: s.id, Agent: chat.NoAgent, Title: s.title}); err != nil {
		return nil, err
	}
	return s.sessions.Append(ctx, s.caller, s.id, drafts)
}

// draft makes a draft of a type that only this server uses. key is its idempotency key, "" for none.
func draft(typ string, payload any, key string) (chat.Draft, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return chat.Draft{}, err
	}
	return chat.NewDraft(chat.Unknown{Name: typ, Payload: raw}).As(key), nil
}

// server is the caller as which the server reads and writes in a workspace.
func server(workspace string) chat.Caller {
	c := chat.Trusted
	c.Workspace = workspace
	return c
}

// perWorkspace is the id of a system session that each workspace has.
func perWorkspace(name, workspace string) chat.SessionID {
	if workspace != chat.DefaultWorkspace {
		name += "." + workspace
	}
	return chat.SessionID(name)
}

// absent reports whether an error says that a session does not exist, or no longer.
func absent(err error) bool {
	code := chat.CodeOf(err)
	return err != nil && (code == chat.NotFound || code == chat.Gone)
}
