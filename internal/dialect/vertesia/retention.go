package vertesia

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Run erases runs that were begun here and have been silent for longer than
// Options.Retention, until ctx ends. Without a retention it does nothing. Runs
// that work or wait for a person are left alone.
func (d *Dialect) Run(ctx context.Context) error {
	if d.opt.Retention <= 0 {
		return nil
	}
	every := min(max(d.opt.Retention/10, time.Minute), time.Hour)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			if n, err := d.expire(ctx); err != nil && ctx.Err() == nil {
				d.log.ErrorContext(ctx, "old runs could not be erased; this is tried again", "err", err)
			} else if n > 0 {
				d.log.InfoContext(ctx, "old runs were erased", "runs", n)
			}
			timer.Reset(every)
		}
	}
}

// expire erases now what is older than the retention and returns how many runs
// that were.
func (d *Dialect) expire(ctx context.Context) (erased int, err error) {
	if d.opt.Retention <= 0 {
		return 0, nil
	}
	limit := chat.AtOf(d.opt.Now().Add(-d.opt.Retention))
	for s, err := range d.opt.Sessions.All(ctx) {
		if err != nil {
			return erased, err
		}
		if s.UpdatedAt >= limit || s.Status == chat.Running || s.Status == chat.Waiting || metaOf(&s)["interaction"] == nil {
			continue // the last: one that was begun elsewhere, of which something was set here
		}
		if _, err := d.opt.Sessions.Erase(ctx, chat.Trusted, s.ID); err != nil {
			if chat.CodeOf(err) == chat.Gone || chat.CodeOf(err) == chat.NotFound {
				continue
			}
			if chat.ReasonOf(err) != chat.EraseUnfinished { // that one is recorded and will be finished
				return erased, err
			}
		}
		erased++
	}
	return erased, nil
}
