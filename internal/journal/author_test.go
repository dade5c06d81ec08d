package journal

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// author writes one session: it holds the state and makes commits that follow
// it. It is not safe for concurrent use.
type author struct {
	journal *Journal
	State   *chat.State
	Actor   chat.Actor
	Clock   chat.At // the time of the next event
	Step    chat.At // how far Clock goes on with each event

	id    chat.SessionID
	next  *chat.State    // after the commit that build made last
	keyed map[int]string // client ids by index of the next commit's bodies
}

// epoch is when an author begins.
const epoch chat.At = 1_800_000_000_000_000

// newAuthor returns an author for a session that is to be created. Nothing is
// stored before its first commit.
func newAuthor(s *Journal, id chat.SessionID) (*author, error) {
	n, exists, err := s.Number(context.Background(), id)
	if err != nil {
		return nil, err
	}
	if exists {
		return nil, fmt.Errorf("session %s exists", id)
	}
	return &author{
		journal: s, State: &chat.State{Number: n}, Actor: chat.Actor{Kind: chat.User, ID: "ann"},
		Clock: epoch, Step: 1000, id: id,
	}, nil
}

// begin creates a session without an agent and fails the test when it cannot.
func begin(t testing.TB, s *Journal, id chat.SessionID, started ...chat.SessionStarted) *author {
	t.Helper()
	a, err := newAuthor(s, id)
	if err != nil {
		t.Fatal(err)
	}
	body := chat.SessionStarted{Agent: chat.NoAgent}
	if len(started) > 0 {
		body = started[0]
	}
	a.append(t, body)
	return a
}

// resume returns an author for a session that exists.
func resume(t testing.TB, s *Journal, id chat.SessionID) *author {
	t.Helper()
	state, err := s.Load(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return &author{
		journal: s, State: state, Actor: chat.Actor{Kind: chat.User, ID: "ann"},
		Clock: state.LastAt + 1000, Step: 1000, id: id,
	}
}

// Key gives the i-th body of the next commit a client id.
func (a *author) Key(i int, clientID string) *author {
	if a.keyed == nil {
		a.keyed = map[int]string{}
	}
	a.keyed[i] = clientID
	return a
}

// build makes a commit of bodies without storing it. Make one only when the one
// before was stored or given up.
func (a *author) build(bodies ...chat.Body) (*core.Commit, error) {
	c := &core.Commit{Session: a.id, Number: a.State.Number, After: a.State.Last}
	state, changed := a.State.Clone(), false
	for i, body := range bodies {
		d := chat.NewDraft(body).As(a.keyed[i])
		if err := d.Normalize(); err != nil {
			return nil, err
		}
		seq := state.Last + 1
		e := chat.Event{
			Session: a.id, Seq: seq, At: core.After(state.LastAt, a.Clock), Type: d.Type,
			ID: chat.EventID(chat.MakeID(a.State.Number, seq).Text(chat.EventPrefix)), Actor: a.Actor,
			ClientID: d.ClientID, Prev: state.Head, Payload: d.Payload, Body: d.Body,
		}
		a.Clock += a.Step
		if ts, ok := body.(chat.TurnStarted); ok {
			e.Turn = ts.TurnID
		}
		f := e.Fact()
		changed = state.Apply(&e) || changed
		state.Head = f.Hash()
		c.Events, c.Facts = append(c.Events, e), append(c.Facts, f)
		if d.ClientID != "" {
			c.Keys = append(c.Keys, core.Key{Actor: a.Actor.Key(), ClientID: d.ClientID, Digest: d.Digest(), Seq: seq})
		}
	}
	a.keyed, a.next = nil, state
	return c, c.SetState(state, changed)
}

// try stores bodies as one commit.
func (a *author) try(bodies ...chat.Body) error {
	c, err := a.build(bodies...)
	if err != nil {
		return err
	}
	if err := a.journal.Commit(context.Background(), c); err != nil {
		return err
	}
	a.State = a.next
	return nil
}

// append is try that fails the test.
func (a *author) append(t testing.TB, bodies ...chat.Body) *author {
	t.Helper()
	if err := a.try(bodies...); err != nil {
		t.Fatal(err)
	}
	return a
}

// message is a user message of that text.
func message(format string, args ...any) chat.Body {
	return chat.UserMessage{Text: fmt.Sprintf(format, args...)}
}
