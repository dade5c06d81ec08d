package wire

import (
	"context"
	"sync"
)

// posts collects the messages that the next Flush sends.
type posts struct {
	mu     sync.Mutex
	frames *[]byte // from the pool; nil for none
	count  int
}

// Post adds one message to those that the next [Conn.Flush] sends. encode appends the
// message to their buffer; it must not block. Post never blocks; the caller bounds what it
// posts.
func (c *Conn) Post(encode func(dst []byte) []byte) {
	p := &c.posts
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frames == nil {
		p.frames = getBuffer()
	}
	b, begin := BeginTextFrame(*p.frames)
	*p.frames = EndTextFrame(encode(b), begin)
	p.count++
}

// Flush sends the posted messages in one system call and returns how many they are. It does
// not wait for the peer: if wait is not nil, the caller must call it in a goroutine, and the
// messages are sent when it returns. There is no error: a failure ends the connection.
func (c *Conn) Flush(ctx context.Context) (count int, wait func()) {
	p := &c.posts
	p.mu.Lock()
	frames, count := p.frames, p.count
	p.frames, p.count = nil, 0
	p.mu.Unlock()
	if frames == nil {
		return 0, nil
	}
	if c.TryWrite(ctx, *frames) {
		putBuffer(frames)
		return count, nil
	}
	return count, func() {
		_ = c.Write(ctx, *frames) // a failure has ended the connection
		putBuffer(frames)
	}
}
