package native

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
)

// How frames count towards the rate limit. An agent sends a preview for every few
// words, so many previews count as one request.
const (
	lightFrames = 50  // previews and pings that count as one request
	manyDrafts  = 100 // drafts of an array that count as one request
)

// moreRequests returns how many requests an array of drafts counts as, in addition to
// the one that carried it.
func moreRequests(drafts int) int { return (drafts - 1) / manyDrafts }

// count counts a frame; it fails when the client is over its limit.
func (s *socket) count(ctx context.Context, op string) error {
	if op == "preview" || op == "ping" {
		if s.light++; s.light < lightFrames {
			return nil
		}
		s.light = 0
	}
	return s.allow(ctx, 1)
}

// allow counts requests. On a paced connection it waits until the limit allows
// them; meanwhile no frame is read, which slows the client down.
func (s *socket) allow(ctx context.Context, requests int) error {
	err := s.d.opt.Allow(s.caller, requests)
	for s.paced && chat.CodeOf(err) == chat.SlowDown {
		wait := time.NewTimer(20 * time.Millisecond)
		select {
		case <-wait.C:
			err = s.d.opt.Allow(s.caller, requests)
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
	}
	return err
}
