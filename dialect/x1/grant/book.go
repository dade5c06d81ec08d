package grant

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// sessions is the door to the conversations.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
}

// book is a system session of a workspace with its projection.
type book struct {
	sessions sessions
	id       chat.SessionID
	caller   chat.Caller
	title    string

	mu    sync.Mutex // held while an event is read or appended: the projection has the log's order
	last  chat.Seq
	apply func(e *chat.Event)
}

// bookID is the id of a workspace's book.
func bookID(name, workspace string) chat.SessionID {
	if workspace == chat.DefaultWorkspace {
		return chat.SessionID(name)
	}
	return chat.SessionID(name + "." + workspace)
}

// update reads what is new in the log. The caller holds mu.
func (b *book) update(ctx context.Context) error {
	for {
		facts, more, err := b.sessions.Read(ctx, b.caller, b.id, chat.Range{After: b.last, Limit: 1000})
		if chat.CodeOf(err) == chat.NotFound {
			return nil // nothing was ever written
		}
		if err != nil {
			return err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return err
			}
			b.last = e.Seq
			b.apply(&e)
		}
		if !more || len(facts) == 0 {
			return nil
		}
	}
}

// write appends an event and applies it. The caller holds mu and is up to date.
func (b *book) write(ctx context.Context, typ string, payload any, key string) (chat.Event, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return chat.Event{}, err
	}
	drafts := []chat.Draft{chat.NewDraft(chat.Unknown{Name: typ, Payload: raw}).As(key)}
	events, err := b.sessions.Append(ctx, b.caller, b.id, drafts)
	if chat.CodeOf(err) == chat.NotFound {
		if _, _, err = b.sessions.Create(ctx, b.caller, chat.NewSession{ID: b.id, Agent: chat.NoAgent, Title: b.title}); err == nil {
			events, err = b.sessions.Append(ctx, b.caller, b.id, drafts)
		}
	}
	if err != nil {
		return chat.Event{}, err
	}
	return events[0], b.update(ctx)
}
