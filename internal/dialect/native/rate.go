package native

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
)

// How frames count towards the limit of requests. An agent sends a preview for
// every few words, so these count together.
const (
	lightFrames = 50  // previews and pings that count as one request
	manyDrafts  = 100 // drafts of an array that count as one request
)

// moreRequests is how many requests an array counts as, beside the one that it
// came with.
func moreRequests(drafts int) int { return (drafts - 1) / manyDrafts }

// count counts a frame; the error says that the client is over its limit.
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
// them: nothing more is read meanwhile, so the client waits, too.
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
