package vertesia

import (
	"sync"

	"github.com/parley-hq/parley/chat"
)

// crowd counts the readers of runs.
type crowd struct {
	mu    sync.Mutex
	count map[chat.SessionID]int
}

// fewReaders is up to how many readers of a run compress for themselves. With
// more of them, what one compression saves on the wire is paid for too dearly.
const fewReaders = 4

// enter counts a reader until it leaves.
func (c *crowd) enter(id chat.SessionID) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[chat.SessionID]int{}
	}
	c.count[id]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.count[id]--; c.count[id] == 0 {
			delete(c.count, id)
		}
	}
}

// few reports whether a run has only a few readers.
func (c *crowd) few(id chat.SessionID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[id] <= fewReaders
}
