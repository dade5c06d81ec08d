package index

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
)

// Sessions is the door to the logs.
type Sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
}

// shelf holds the collections of one kind.
type shelf[T any] struct {
	sessions Sessions
	kind     string
	empty    func() *T
	apply    func(*T, *chat.Event)

	mu    sync.Mutex
	books map[chat.SessionID]*book[T]
}

// book is one collection.
type book[T any] struct {
	shelf  *shelf[T]
	id     chat.SessionID
	name   string
	caller chat.Caller

	write sync.Mutex // one change at a time; held while it is stored
	mu    sync.RWMutex
	last  chat.Seq
	value *T
}

// MaxName bounds the names of collections.
const MaxName = 256

// open finds the collection that a call means: that of its session's workspace.
func (s *shelf[T]) open(ctx context.Context, c natsprovider.Call, name string) (*book[T], error) {
	if name == "" || len(name) > MaxName {
		return nil, chat.Errorf(chat.Invalid, "a collection has a name of 1 to %d bytes", MaxName)
	}
	workspace := chat.DefaultWorkspace
	if c.Session != "" {
		sess, err := s.sessions.Get(ctx, chat.Trusted, c.Session)
		if err != nil {
			return nil, err
		}
		workspace = sess.Workspace
	}
	sum := sha256.Sum256([]byte(workspace + "\x00" + name))
	id := chat.SessionID("sys-" + s.kind + "." + hex.EncodeToString(sum[:16]))
	s.mu.Lock()
	b := s.books[id]
	if b == nil {
		who := chat.Trusted
		who.Workspace = workspace
		b = &book[T]{shelf: s, id: id, name: name, caller: who, value: s.empty()}
		s.books[id] = b
	}
	s.mu.Unlock()
	return b, b.update(ctx)
}

// update reads what is new in the log.
func (b *book[T]) update(ctx context.Context) error {
	for {
		b.mu.RLock()
		after := b.last
		b.mu.RUnlock()
		facts, more, err := b.shelf.sessions.Read(ctx, b.caller, b.id, chat.Range{After: after, Limit: 1000})
		if chat.CodeOf(err) == chat.NotFound {
			return nil // nothing was ever written
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				b.mu.Unlock()
				return err
			}
			if e.Seq <= b.last {
				continue // somebody else read it meanwhile
			}
			b.last = e.Seq
			b.shelf.apply(b.value, &e)
		}
		b.mu.Unlock()
		if !more || len(facts) == 0 {
			return nil
		}
	}
}

// change stores an event and returns when it is durable and applied.
func (b *book[T]) change(ctx context.Context, typ string, payload any) (chat.Event, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return chat.Event{}, err
	}
	b.write.Lock()
	defer b.write.Unlock()
	drafts := []chat.Draft{chat.NewDraft(chat.Unknown{Name: typ, Payload: raw})}
	events, err := b.shelf.sessions.Append(ctx, b.caller, b.id, drafts)
	if chat.CodeOf(err) == chat.NotFound {
		if _, _, err = b.shelf.sessions.Create(ctx, b.caller, chat.NewSession{ID: b.id, Agent: chat.NoAgent, Title: "Collection " + b.name}); err == nil {
			events, err = b.shelf.sessions.Append(ctx, b.caller, b.id, drafts)
		}
	}
	if err != nil {
		return chat.Event{}, err
	}
	return events[0], b.update(ctx)
}
