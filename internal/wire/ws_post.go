package wire

import (
	"context"
	"runtime"
	"sync"
)

// maxPosted bounds what waits for the next write; beyond it, Post blocks.
const maxPosted = 256 << 10

// posts collects the frames of the next write.
type posts struct {
	mu      sync.Mutex
	waiting *[]byte // frames, from the pool; nil for none
	busy    bool    // a goroutine writes, and looks for more when it is done
}

// Post sends one message to this reader only, like [Conn.WriteText]. encode appends the
// message to the buffer of the next write; it must not block. While another
// message is being written, Post leaves the message to that goroutine, which sends all
// that is waiting in one system call. So Post may return before the message is sent,
// and returns no error: a failure ends the connection. With more, other goroutines are
// about to post; they get the processor first.
func (c *Conn) Post(ctx context.Context, encode func(dst []byte) []byte, more bool) {
	p := &c.posts
	p.mu.Lock()
	if p.waiting == nil {
		p.waiting = getBuffer()
	}
	b, begin := BeginTextFrame(*p.waiting)
	*p.waiting = EndTextFrame(encode(b), begin)
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
		putBuffer(frames)
	}
}
