// Package retry repeats decisions about a session that others change at the same time, and reads when a server wants to be asked again.
package retry

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sleep"
)

const (
	atOnce   = 3                     // repetitions without a pause
	maxPause = 50 * time.Millisecond // the bound of the pauses grows up to here
	maxTime  = 10 * time.Second
)

// WhileChanged calls decide until its error has another reason than chat.SessionChanged, or none. The first repetitions follow at
// once, the others after random pauses, so that each of several nodes that change a session gets its turn. When ctx ends, or after
// about ten seconds, it returns the last error of decide.
func WhileChanged(ctx context.Context, decide func() error) error {
	begin := time.Now()
	bound := time.Millisecond
	for try := 0; ; try++ {
		err := decide()
		if chat.ReasonOf(err) != chat.SessionChanged || ctx.Err() != nil || time.Since(begin) >= maxTime {
			return err
		}
		if try < atOnce {
			continue
		}
		if sleep.For(ctx, rand.N(bound)+1) != nil {
			return err
		}
		bound = min(2*bound, maxPause)
	}
}
