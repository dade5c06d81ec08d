package native

import (
	"sync"
	"time"
)

// heartbeat calls a function periodically. It has no goroutine while it waits:
// there is one heartbeat per connection, and most connections are idle.
type heartbeat struct {
	mu    sync.Mutex // held during a call
	timer *time.Timer
	ended bool
}

func beat(every time.Duration, f func()) *heartbeat {
	h := &heartbeat{}
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

// stop ends it; no call is running when it returns.
func (h *heartbeat) stop() {
	h.timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
}
