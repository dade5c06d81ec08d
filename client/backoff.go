package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sleep"
)

// Backoff is the pause between attempts: it begins at Min, doubles up to Max, and is shortened at random, so that many
// clients do not reconnect at the same time.
type Backoff struct {
	Min time.Duration // 0 means 250 ms
	Max time.Duration // 0 means 15 s
}

func (b Backoff) withDefaults() Backoff {
	if b.Min <= 0 {
		b.Min = 250 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 15 * time.Second
	}
	b.Max = max(b.Max, b.Min)
	return b
}

// pause is how long to wait before attempt n, counted from 1.
func (b Backoff) pause(n int) time.Duration {
	d := b.Max
	if n < 30 && b.Min<<(n-1) < b.Max && b.Min<<(n-1) > 0 {
		d = b.Min << (n - 1)
	}
	return d/2 + rand.N(d/2+1)
}

// temporary reports whether the same request may succeed later.
func temporary(err error) bool {
	switch chat.CodeOf(err) {
	case chat.Unavailable, chat.SlowDown:
		return true
	}
	return false
}

// retryAfter is the pause that the server asks for, or 0.
func retryAfter(err error) time.Duration {
	n, _ := chat.Public(err).Details["retry_after"].(int)
	return min(time.Duration(n)*time.Second, time.Minute)
}

// repeat calls f until it succeeds, fails permanently, or the attempts are used up.
func (c *Client) repeat(ctx context.Context, safe bool, f func() error) error {
	for n := 1; ; n++ {
		used := c.node.Load()
		err := f()
		if err == nil || ctx.Err() != nil || !temporary(err) {
			return err
		}
		d := c.pause(err, n, used)
		if !safe && !(len(c.nodes) > 1 && neverSent(err)) || n >= max(0, c.opt.Retries)+len(c.nodes) {
			return err
		}
		c.opt.Logger.DebugContext(ctx, "trying again", "attempt", n, "pause", d, "err", err)
		if sleep.For(ctx, d) != nil {
			return err
		}
	}
}
