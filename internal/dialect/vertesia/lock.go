package vertesia

import (
	"sync"

	"github.com/parley-hq/parley/chat"
)

// locks makes changes to one session wait for each other. It holds memory only
// for sessions that are being changed.
type locks struct {
	mu   sync.Mutex
	held map[chat.SessionID]*held
}

type held struct {
	sync.Mutex
	users int // guarded by locks.mu
}

// hold waits for its turn and returns what gives it back.
func (l *locks) hold(id chat.SessionID) (release func()) {
	l.mu.Lock()
	h := l.held[id]
	if h == nil {
		h = &held{}
		if l.held == nil {
			l.held = map[chat.SessionID]*held{}
		}
		l.held[id] = h
	}
	h.users++
	l.mu.Unlock()
	h.Lock()
	return func() {
		h.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, id)
		}
	}
}

// bare remembers sessions of which it is known that nobody brought files into
// them. It is bounded, and forgets all when it is full.
type bare struct {
	mu  sync.Mutex
	ids map[chat.SessionID]struct{}
}

const maxBare = 10_000

func (b *bare) has(id chat.SessionID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.ids[id]
	return ok
}

func (b *bare) add(id chat.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids == nil || len(b.ids) >= maxBare {
		b.ids = map[chat.SessionID]struct{}{}
	}
	b.ids[id] = struct{}{}
}

func (b *bare) remove(id chat.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ids, id)
}
