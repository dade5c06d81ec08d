package native

import (
	"sync"
	"time"
)

// heart calls a function again and again. It has no goroutine while it waits:
// there is one heart per connection, and most connections are silent.
type heart struct {
	mu    sync.Mutex // held while it beats
	timer *time.Timer
	ended bool
}

func beat(every time.Duration, f func()) *heart {
	h := &heart{}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(every, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.ended {
			f()
			h.timer.Reset(every)
		}
	})
	return h
}

// stop ends it; a beat under way has ended when it returns.
func (h *heart) stop() {
	h.timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
}
