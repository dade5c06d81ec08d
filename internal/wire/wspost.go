package wire

import (
	"context"
	"runtime"
	"sync"
)

// maxPosted bounds what waits behind a write; beyond it, who posts waits too.
const maxPosted = 256 << 10

// posts is what goes out with the next write.
type posts struct {
	mu      sync.Mutex
	waiting *[]byte // frames, from the pool; nil for none
	busy    bool    // somebody writes, and looks again when it is done
}

// Post sends one message to this reader only, like [Conn.WriteText], but while
// another post is being written it leaves it to that goroutine, which sends all
// that has gathered in one system call. So it may return before the message is
// out, and says nothing of failures: those end the connection. more says that others are about to
// post, and gives them a chance to do so first.
func (c *Conn) Post(ctx context.Context, payload []byte, more bool) {
	p := &c.posts
	p.mu.Lock()
	if p.waiting == nil {
		p.waiting = getBuf()
	}
	*p.waiting = AppendTextFrame(*p.waiting, payload)
	if p.busy {
		much := len(*p.waiting) > maxPosted
		p.mu.Unlock()
		if much {
			_ = c.Write(ctx, nil) // returns when what is being written is out
		}
		return
	}
	p.busy = true
	p.mu.Unlock()
	if more {
		runtime.Gosched()
	}
	for {
		p.mu.Lock()
		frames := p.waiting
		p.waiting = nil
		if frames == nil {
			p.busy = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		_ = c.Write(ctx, *frames) // a failure has ended the connection
		putBuf(frames)
	}
}
