package grant

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// sessions is the door to the conversations.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
}

// projection is what follows from the events of a book.
type projection interface{ apply(e *chat.Event) }

// books are the books of one kind, one per workspace. A book is read when it is
// first asked for.
type books[P projection] struct {
	sessions sessions
	name     string // of the system session
	title    string
	empty    func(workspace string) P

	mu  sync.Mutex
	all map[string]*book[P]
}

// book is a system session of a workspace with its projection.
type book[P projection] struct {
	sessions sessions
	id       chat.SessionID
	caller   chat.Caller
	title    string

	mu   sync.Mutex // held while an event is read or appended: the projection has the log's order
	last chat.Seq
	has  P
}

// id names the system session of a workspace.
func (bs *books[P]) id(workspace string) chat.SessionID {
	if workspace == chat.DefaultWorkspace {
		return chat.SessionID(bs.name)
	}
	return chat.SessionID(bs.name + "." + workspace)
}

// exists reports whether anything was ever written for a workspace. It keeps
// nothing in memory, so it may be asked with whatever a stranger sends.
func (bs *books[P]) exists(ctx context.Context, workspace string) (bool, error) {
	bs.mu.Lock()
	_, ok := bs.all[workspace]
	bs.mu.Unlock()
	if ok {
		return true, nil
	}
	_, err := bs.sessions.Get(ctx, chat.Trusted, bs.id(workspace))
	if chat.CodeOf(err) == chat.NotFound {
		return false, nil
	}
	return err == nil, err
}

// open returns a workspace's book, up to date and locked.
func (bs *books[P]) open(ctx context.Context, workspace string) (*book[P], error) {
	bs.mu.Lock()
	b := bs.all[workspace]
	if b == nil {
		b = &book[P]{sessions: bs.sessions, id: bs.id(workspace), caller: chat.Trusted, title: bs.title, has: bs.empty(workspace)}
		b.caller.Workspace = workspace
		if bs.all == nil {
			bs.all = map[string]*book[P]{}
		}
		bs.all[workspace] = b
	}
	bs.mu.Unlock()
	b.mu.Lock()
	if err := b.update(ctx); err != nil {
		b.mu.Unlock()
		return nil, err
	}
	return b, nil
}

// update reads what is new in the log. The caller holds mu.
func (b *book[P]) update(ctx context.Context) error {
	err := each(ctx, b.sessions, b.caller, b.id, b.last, nil, func(e *chat.Event) error {
		b.last = e.Seq
		b.has.apply(e)
		return nil
	})
	if chat.CodeOf(err) == chat.NotFound {
		return nil // nothing was ever written
	}
	return err
}

// write appends an event and applies it. The caller holds mu and is up to date.
func (b *book[P]) write(ctx context.Context, typ string, payload any, key string) (chat.Event, error) {
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

// each hands over the events of a session behind a sequence, in order; types nil
// means all.
func each(ctx context.Context, s sessions, c chat.Caller, id chat.SessionID, after chat.Seq, types []string, do func(*chat.Event) error) error {
	for {
		facts, more, err := s.Read(ctx, c, id, chat.Range{After: after, Limit: 1000, Types: types})
		if err != nil {
			return err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return err
			}
			after = e.Seq
			if err := do(&e); err != nil {
				return err
			}
		}
		if !more || len(facts) == 0 {
			return nil
		}
	}
}

// maxFollowed bounds the sessions whose place is remembered.
const maxFollowed = 10_000

// follower makes up for what was not taken from logs when it was committed, such
// as after a crash. It remembers how far it has come, so that a long log is gone
// through once.
type follower struct {
	sessions sessions
	typ      string // of the events that matter
	take     func(context.Context, *chat.Event) error

	mu   sync.Mutex
	upTo map[chat.SessionID]chat.Seq
}

// catchUp takes what a session's log has; what was taken before may come again.
func (f *follower) catchUp(ctx context.Context, id chat.SessionID) error {
	sess, err := f.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	from := f.upTo[sess.ID]
	f.mu.Unlock()
	if from >= sess.Last {
		return nil
	}
	err = each(ctx, f.sessions, chat.Trusted, sess.ID, from, []string{f.typ}, func(e *chat.Event) error { return f.take(ctx, e) })
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.upTo == nil || len(f.upTo) >= maxFollowed {
		f.upTo = map[chat.SessionID]chat.Seq{}
	}
	f.upTo[sess.ID] = max(f.upTo[sess.ID], sess.Last)
	return nil
}
