package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// maxSleep is the longest time that Run sleeps while a deadline is set. It bounds the
// delay after the machine was suspended or its clock was changed.
const maxSleep = 30 * time.Second

// Run closes prompts at their deadlines, applies the deadlines of workstreams and
// finishes erasures, until ctx ends. Deadlines and erasures are stored in the log, so
// they survive a restart.
func (s *Sessions) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.eraseAll(ctx) })
	timer := time.NewTimer(maxSleep)
	defer timer.Stop()
	for {
		next, err := s.expire(ctx)
		if err == nil && !s.armed.Swap(true) {
			if err = s.scheduleAll(ctx); err != nil {
				s.armed.Store(false)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.ErrorContext(ctx, "what is due at deadlines could not be done; trying again", "err", err)
			next = s.now() + 1e6
		}
		if t := s.runDue(ctx); t != 0 && (next == 0 || t < next) {
			next = t
		}
		var due <-chan time.Time
		if next != 0 {
			timer.Reset(min(maxSleep, time.Duration(max(0, next-s.now()))*time.Microsecond))
			due = timer.C
		}
		select {
		case <-due:
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// wakeRun makes Run check the deadlines again.
func (s *Sessions) wakeRun() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// expire closes the prompts whose deadline has passed and returns the next deadline, 0
// for none. An error in one session does not stop the others.
func (s *Sessions) expire(ctx context.Context) (next chat.At, err error) {
	var due []core.Deadline
	for dl, err := range s.log.Deadlines(ctx) {
		if err != nil {
			return 0, err
		}
		if dl.At > s.now() || len(due) == 1000 {
			next = dl.At
			break
		}
		if s.owns(dl.Session) {
			due = append(due, dl)
		}
	}
	var problems []error
	for _, dl := range due {
		err := s.system(ctx, dl.Session, func(d *decision) error {
			p := d.state.Prompt(dl.RequestID)
			if p != nil && p.Deadline != 0 && d.now >= p.Deadline {
				d.addSystem(chat.PromptClosed{RequestID: p.RequestID, Reason: chat.Expired}, p.Workstream, p.Turn)
			}
			return nil
		})
		if err != nil && chat.CodeOf(err) != chat.Gone && chat.CodeOf(err) != chat.NotFound {
			problems = append(problems, fmt.Errorf("prompt %s of session %s: %w", dl.RequestID, dl.Session, err))
		}
	}
	return next, errors.Join(problems...)
}
