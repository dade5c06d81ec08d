package record

import (
	"cmp"
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/retry"
)

// maxLogs bounds the logs of one kind that stay in memory while nobody uses them.
const maxLogs = 1000

// Value is what the events of a log are folded into.
type Value interface {
	// Apply changes the value as an event says. It ignores events that it cannot read.
	Apply(e *chat.Event)
}

// Name says which log is meant.
type Name struct {
	ID        chat.SessionID // of the system session
	Workspace string         // in which the session is
	Title     string         // of the session
}

// InWorkspace names a log that each workspace has.
func InWorkspace(name, title, workspace string) Name {
	return Name{ID: perWorkspace(name, workspace), Workspace: workspace, Title: title}
}

// Logs are the logs of one kind. A log is read when it is first used.
type Logs[V Value] struct {
	Sessions Sessions
	New      func(workspace string) V // makes an empty value
	Max      int                      // logs that stay in memory; 0 means 1000

	mu    sync.Mutex
	all   map[chat.SessionID]*log[V]
	clock uint64
}

// log is one log in memory.
type log[V Value] struct {
	users int    // calls that use it now; guarded by Logs.mu
	used  uint64 // when it was last used; guarded by Logs.mu

	mu    sync.Mutex   // held while the log is read or written, so that the value has the log's order
	fold  sync.RWMutex // held while an event is applied, or the value looked at
	value V
	stream
}

// View calls f with the value of a log, up to date. f must not change it, nor keep parts of it that Apply changes.
func (ls *Logs[V]) View(ctx context.Context, name Name, f func(V) error) error {
	l := ls.acquire(name)
	defer ls.release(l)
	l.mu.Lock()
	err := l.update(ctx)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	l.fold.RLock()
	defer l.fold.RUnlock()
	return f(l.value)
}

// Change calls f with the value of a log, up to date. If the log gets an event from another node before that of f is stored,
// the event of f is not stored and f is called again, see retry.WhileChanged.
func (ls *Logs[V]) Change(ctx context.Context, name Name, f func(*Tx[V]) error) error {
	l := ls.acquire(name)
	defer ls.release(l)
	return retry.WhileChanged(ctx, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := l.update(ctx); err != nil {
			return err
		}
		return f(&Tx[V]{Value: l.value, log: l})
	})
}

// Tx is a change of a log under way. It is valid until the function that got it returns.
type Tx[V Value] struct {
	Value V // includes what Append has stored
	log   *log[V]
}

// Append stores an event and applies it to the value. When an event with the same key was stored before, it is returned
// if it has the same payload; otherwise the error has the code conflict. Key "" is no key. An error with the reason
// chat.SessionChanged means that the value was not up to date: return it, so that Change decides again.
func (t *Tx[V]) Append(ctx context.Context, typ string, payload any, key string) (chat.Event, error) {
	d, err := draft(typ, payload, key)
	if err != nil {
		return chat.Event{}, err
	}
	d.AfterSeq = cmp.Or(t.log.last, noEvents)
	events, err := t.log.append(ctx, d)
	if err != nil {
		return chat.Event{}, err
	}
	return events[0], t.log.update(ctx)
}

// update applies the new events of the log. The caller holds l.mu.
func (l *log[V]) update(ctx context.Context) error {
	err := l.read(ctx, func(e *chat.Event) {
		l.fold.Lock()
		defer l.fold.Unlock()
		l.value.Apply(e)
	})
	if chat.CodeOf(err) == chat.NotFound {
		return nil // nothing was written yet
	}
	return err
}

func (ls *Logs[V]) acquire(name Name) *log[V] {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.all[name.ID]
	if l == nil {
		l = &log[V]{value: ls.New(name.Workspace), stream: stream{sessions: ls.Sessions, id: name.ID, title: name.Title, caller: server(name.Workspace)}}
		if ls.all == nil {
			ls.all = map[chat.SessionID]*log[V]{}
		}
		ls.all[name.ID] = l
	}
	l.users++
	return l
}

// release drops the log from memory when it is empty, or the one that was unused for longest when there are too many.
// A log in use always stays, so there are never two of one session.
func (ls *Logs[V]) release(l *log[V]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.clock++
	l.used = ls.clock
	if l.users--; l.users > 0 {
		return
	}
	if l.last == 0 {
		delete(ls.all, l.id)
		return
	}
	if len(ls.all) <= cmp.Or(ls.Max, maxLogs) {
		return
	}
	var oldest *log[V]
	for _, o := range ls.all {
		if o.users == 0 && (oldest == nil || o.used < oldest.used) {
			oldest = o
		}
	}
	delete(ls.all, oldest.id)
}

// Len returns how many logs are in memory.
func (ls *Logs[V]) Len() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.all)
}
