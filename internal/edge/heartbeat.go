package edge

import (
	"sync"
	"sync/atomic"
	"time"
)

// Heartbeat calls a function when nothing was noted for a period. It has no goroutine while
// it waits: there is one heartbeat per connection, and most connections are idle.
type Heartbeat struct {
	mu    sync.Mutex // held during a call
	timer *time.Timer
	ended bool
	noted atomic.Int64 // time of the last note, in nanoseconds
}

// NewHeartbeat starts a heartbeat.
func NewHeartbeat(every time.Duration, f func()) *Heartbeat {
	h := &Heartbeat{}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(every, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ended {
			return
		}
		wait := every - time.Duration(time.Now().UnixNano()-h.noted.Load())
		if wait <= 0 || wait > every {
			f()
			wait = every
		}
		h.timer.Reset(wait)
	})
	return h
}

// Note delays the next call by a period from now.
func (h *Heartbeat) Note() { h.noted.Store(time.Now().UnixNano()) }

// Stop ends it; no call is running when it returns.
func (h *Heartbeat) Stop() {
	h.timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
}
