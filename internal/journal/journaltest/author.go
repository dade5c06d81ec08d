// Package journaltest is the contract of a journal: one suite that every store
// or committer must pass, and an Author that makes commits the way the rules do.
package journaltest

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// Store is what the suite needs of a journal.
type Store interface {
	Number(ctx context.Context, id chat.SessionID) (chat.Number, bool, error)
	SessionOf(ctx context.Context, n chat.Number) (chat.SessionID, error)
	Commit(ctx context.Context, c *chat.Commit) error
	Load(ctx context.Context, id chat.SessionID) (*chat.State, error)
	Record(ctx context.Context, id chat.SessionID) (chat.Session, error)
	Read(ctx context.Context, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Get(ctx context.Context, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	ByClientID(ctx context.Context, id chat.SessionID, actorKey, clientID string) (chat.Key, bool, error)
	Prompt(ctx context.Context, id chat.SessionID, requestID string) (chat.PromptRef, bool, error)
	Ends(ctx context.Context, id chat.SessionID, seq chat.Seq) ([]chat.End, error)
	Deadlines(ctx context.Context) iter.Seq2[chat.Deadline, error]
	Working(ctx context.Context) iter.Seq2[chat.SessionID, error]
	List(ctx context.Context, f chat.Filter) (chat.SessionPage, error)
	Alias(ctx context.Context, workspace, actorKey, foreign string) (chat.SessionID, bool, error)
	SetAlias(ctx context.Context, workspace, actorKey, foreign string, id chat.SessionID) (chat.SessionID, error)
	ReplaceAlias(ctx context.Context, workspace, actorKey, foreign string, id chat.SessionID) error
	Erase(ctx context.Context, id chat.SessionID) (chat.Receipt, error)
	Import(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) error
}

// Author writes one session: it holds the state and makes commits that follow
// it. It is not safe for concurrent use.
type Author struct {
	Store Store
	State *chat.State
	Actor chat.Actor
	Clock chat.At // the time of the next event
	Step  chat.At // how far Clock goes on with each event

	id    chat.SessionID
	keyed map[int]string // client ids by index of the next commit's bodies
}

// Epoch is when an Author begins.
const Epoch chat.At = 1_800_000_000_000_000

// NewAuthor returns an author for a session that is to be created. Nothing is
// stored before its first commit.
func NewAuthor(s Store, id chat.SessionID) (*Author, error) {
	n, exists, err := s.Number(context.Background(), id)
	if err != nil {
		return nil, err
	}
	if exists {
		return nil, fmt.Errorf("session %s exists", id)
	}
	return &Author{
		Store: s, State: &chat.State{Number: n}, Actor: chat.Actor{Kind: chat.User, ID: "ann"},
		Clock: Epoch, Step: 1000, id: id,
	}, nil
}

// Begin creates a session without an agent and fails the test when it cannot.
func Begin(t testing.TB, s Store, id chat.SessionID, started ...chat.SessionStarted) *Author {
	t.Helper()
	a, err := NewAuthor(s, id)
	if err != nil {
		t.Fatal(err)
	}
	body := chat.SessionStarted{Agent: chat.NoAgent}
	if len(started) > 0 {
		body = started[0]
	}
	a.Say(t, body)
	return a
}

// Resume returns an author for a session that exists.
func Resume(t testing.TB, s Store, id chat.SessionID) *Author {
	t.Helper()
	state, err := s.Load(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return &Author{
		Store: s, State: state, Actor: chat.Actor{Kind: chat.User, ID: "ann"},
		Clock: state.LastAt + 1000, Step: 1000, id: id,
	}
}

// Key gives the i-th body of the next commit a client id.
func (a *Author) Key(i int, clientID string) *Author {
	if a.keyed == nil {
		a.keyed = map[int]string{}
	}
	a.keyed[i] = clientID
	return a
}

// Commit makes a commit of bodies without storing it. Make one only when the one
// before was stored or given up.
func (a *Author) Commit(bodies ...chat.Body) (*chat.Commit, error) {
	c := &chat.Commit{
		Session: a.id, Number: a.State.Number, After: a.State.Last, AfterAt: a.State.LastAt, State: a.State.Clone(),
	}
	for i, body := range bodies {
		d := chat.NewDraft(body).As(a.keyed[i])
		if err := d.Settle(); err != nil {
			return nil, err
		}
		seq := c.State.Last + 1
		e := chat.Event{
			Session: a.id, Seq: seq, At: chat.After(c.State.LastAt, a.Clock), Type: d.Type,
			ID: chat.EventID(chat.MakeID(a.State.Number, seq).Text(chat.EventPrefix)), Actor: a.Actor,
			ClientID: d.ClientID, Prev: c.State.Head, Payload: d.Payload, Body: d.Body,
		}
		a.Clock += a.Step
		if ts, ok := body.(chat.TurnStarted); ok {
			e.Turn = ts.TurnID
		}
		f := e.Fact()
		c.Record = c.State.Apply(&e) || c.Record
		c.State.Head = f.Hash()
		c.Events, c.Facts = append(c.Events, e), append(c.Facts, f)
		if d.ClientID != "" {
			c.Keys = append(c.Keys, chat.Key{Actor: a.Actor.Key(), ClientID: d.ClientID, Digest: d.Digest(), Seq: seq})
		}
	}
	a.keyed = nil
	return c, nil
}

// Try stores bodies as one commit.
func (a *Author) Try(bodies ...chat.Body) error {
	c, err := a.Commit(bodies...)
	if err != nil {
		return err
	}
	if err := a.Store.Commit(context.Background(), c); err != nil {
		return err
	}
	a.State = c.State
	return nil
}

// Say is Try that fails the test.
func (a *Author) Say(t testing.TB, bodies ...chat.Body) *Author {
	t.Helper()
	if err := a.Try(bodies...); err != nil {
		t.Fatal(err)
	}
	return a
}

// Text is a user message of that text.
func Text(format string, args ...any) chat.Body {
	return chat.UserMessage{Text: fmt.Sprintf(format, args...)}
}
