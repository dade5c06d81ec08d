package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/sleep"
)

// Limits of the pause between two attempts.
const (
	maxPause = time.Minute
	maxAfter = 5 * time.Minute // if an endpoint asks for more, the request is not retried
)

// retry asks the model until it answers or until a retry cannot help. It reports each
// pause in the session.
func (r *round) retry(ctx context.Context, ask func(ctx context.Context, key string, alive func()) (*llm.Answer, error)) (*llm.Answer, error) {
	for try := 1; ; try++ {
		answer, err := r.once(ctx, ask)
		if err == nil {
			r.agent.setProblem(nil)
			return answer, nil
		}
		f, ok := asFailure(err)
		if !ok {
			return answer, err
		}
		r.agent.setProblem(f)
		if !f.Again || try > r.opt.Retries {
			return answer, f
		}
		pause := r.pause(try, f)
		if pause > maxAfter {
			f.Msg += fmt.Sprintf(" (it asks to wait for %s)", pause.Round(time.Second))
			return answer, f
		}
		message := fmt.Sprintf("%s; trying again in %s (%d of %d).", upper(f.Msg), pause.Round(100*time.Millisecond), try, r.opt.Retries)
		if err := r.reports().Status(ctx, message, "waiting"); err != nil {
			return answer, err
		}
		if err := sleep.For(ctx, pause); err != nil {
			return answer, err
		}
	}
}

// reports returns the part of the turn for status reports. Status reports do not
// affect the steps, so each attempt has its own part.
func (r *round) reports() *agent.Turn {
	if r.reportPart == nil {
		r.reportPart = r.turn.Part("word" + strconv.Itoa(r.turn.Ref().Attempt))
	}
	return r.reportPart
}

// pause returns the wait before the next attempt. It grows with each attempt and is
// randomised, so that many turns do not retry at the same time.
func (r *round) pause(try int, f *Failure) time.Duration {
	if f.After > 0 {
		return f.After
	}
	pause := min(r.opt.Backoff<<min(try-1, 10), maxPause)
	return pause/2 + rand.N(pause/2+1)
}

// once asks the model one time. It fails if no event arrives within Options.Idle.
func (r *round) once(ctx context.Context, ask func(ctx context.Context, key string, alive func()) (*llm.Answer, error)) (*llm.Answer, error) {
	key, err := r.opt.Key()
	if err != nil {
		return nil, &Failure{Code: agent.CodeNoKey, Msg: "the model's key is missing: " + err.Error(), err: err}
	}
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(r.opt.Idle, func() { cancel(errIdle) })
	defer idle.Stop()
	answer, err := ask(watched, key, func() { idle.Reset(r.opt.Idle) })
	if err == nil {
		return answer, nil
	}
	if ctx.Err() != nil {
		return answer, context.Cause(ctx)
	}
	if f, ok := asFailure(err); ok {
		if len(key) >= 6 {
			f.Msg = strings.ReplaceAll(f.Msg, key, "…")
		}
		return answer, f
	}
	if chat.ReasonOf(err) == chat.EmptyAnswer {
		return answer, &Failure{Code: agent.CodeEmpty, Again: true, Msg: chat.Public(err).Msg, err: err}
	}
	return answer, err
}

func asFailure(err error) (*Failure, bool) { return errors.AsType[*Failure](err) }

// errorText returns an error text that can be shown to users.
func (r *round) errorText(err error) string {
	if f, ok := asFailure(err); ok {
		return f.Msg
	}
	return chat.Public(err).Msg
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
