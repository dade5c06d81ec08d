// Package sleep waits for a time, or for the end of a context.
package sleep

import (
	"context"
	"time"
)

// For waits for d. When ctx ends first, it returns the cause of ctx at once.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
