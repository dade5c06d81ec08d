package agentpool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/sleep"
)

// Options configures a Runner; the zero value has defaults.
type Options struct {
	Grace     time.Duration  // how long turns may continue after Run's ctx ends; 0 means 10 s
	StopGrace time.Duration  // how long an agent may take to stop; 0 means 5 s
	Clean     bool           // the last process shut down in order: its open turns did not crash it
	Wait      bool           // turns of the last process are resumed by TakeOver, not at the start
	Tracer    trace.Tracer   // nil means no spans
	Store     core.StoreFunc // stores files of agents; nil means they cannot store any
	Logger    *slog.Logger   // nil means none
}

// Runner gives turns to agents.
type Runner struct {
	sessions sessions
	agents   *Registry
	opt      Options

	mu    sync.Mutex
	runs  map[line]*run
	spawn func(*run) // starts the goroutine of a turn; nil while Run does not run

	resumptions []resumption  // sessions whose turns have to be resumed
	resumable   chan struct{} // there are resumptions; has room for one
}

// line is the main line of a session or a workstream. At most one turn runs on it.
type line struct {
	session    chat.SessionID
	workstream string
}

// run is a running turn. Runner.mu guards waits, stop, stopped and in.moved; the others do not change once it has begun.
type run struct {
	ref     chat.TurnRef
	line    line
	agent   string
	started chat.Seq
	trigger chat.Seq
	begun   []chat.Event // the events started and trigger, if one commit has both
	resumed bool
	in      turnInput

	waits   bool                    // for Run
	stop    context.CancelCauseFunc // nil until it runs
	stopped bool
}

// errShutdown is the cause of a turn's context when the server shuts down.
var errShutdown = errors.New("the server is shutting down")

// NewRunner returns a runner; call Attach before Run.
func NewRunner(agents *Registry, opt Options) *Runner {
	opt.Grace = cmp.Or(opt.Grace, 10*time.Second)
	opt.StopGrace = cmp.Or(opt.StopGrace, 5*time.Second)
	if opt.Tracer == nil {
		opt.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runner{agents: agents, opt: opt, runs: map[line]*run{}, resumable: make(chan struct{}, 1)}
	agents.workers.turns = r
	return r
}

// Attach sets the sessions. It is not an option of the runner because the sessions are made with the runner as an observer.
func (r *Runner) Attach(s sessions) { r.sessions = s }

// Committed reports stored events. It does not block.
func (r *Runner) Committed(evs []chat.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range evs {
		e := &evs[i]
		at := line{e.Session, e.Workstream}
		switch b := e.Body.(type) {
		case chat.TurnStarted:
			if !r.agents.workers.here(b.TurnID) {
				continue // another node has taken the session over since the event was stored, and runs the turn
			}
			u := &run{ref: chat.TurnRef{Session: e.Session, Turn: b.TurnID, Attempt: 1}, line: at, agent: b.Agent, started: e.Seq, trigger: b.Trigger}
			for j := range evs[:i+1] {
				if s := evs[j].Seq; evs[j].Session == e.Session && (s == u.started || s == u.trigger) {
					u.begun = append(u.begun, evs[j])
				}
			}
			r.add(u)
			r.begin(u)
		case chat.TurnCompleted:
			if u := r.runs[at]; u != nil && u.ref.Turn == b.TurnID {
				delete(r.runs, at)
				r.release(u)
			}
		case chat.TurnStopRequested:
			if u := r.runs[at]; u != nil && u.ref.Turn == b.TurnID {
				u.stopped = true
				u.in.stopBy.Store(int64(b.Deadline))
				if u.stop != nil {
					u.stop(agent.ErrStopped)
				}
			}
		case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
			if u := r.runs[at]; u != nil {
				u.in.Put(*e)
			}
		case chat.UserMessage, chat.WorkstreamProgress, chat.WorkstreamWarning, chat.WorkstreamCompleted,
			chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamCanceled:
			if u := r.runs[at]; u != nil {
				u.in.notify()
			}
		case chat.WorkstreamMessage:
			if u := r.runs[line{e.Session, b.ID}]; u != nil {
				u.in.notify()
			}
		case chat.WorkstreamSteered:
			if u := r.runs[line{e.Session, b.ID}]; u != nil {
				u.in.Steer(b.Command)
				u.in.notify()
			}
		}
	}
}

// release ends the context of a turn that has ended in the log or whose session was erased. The caller holds mu.
func (r *Runner) release(u *run) {
	close(u.in.ended)
	if u.stop != nil {
		u.stop(agent.ErrStopped)
	}
	u.stopped = true
}

// Release ends the turns of sessions that another node has taken over. That node resumes them.
func (r *Runner) Release(of func(chat.SessionID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, u := range r.runs {
		if of(at.session) {
			r.move(u)
		}
	}
}

// move ends a run whose turn goes on in another one. The caller holds mu.
func (r *Runner) move(u *run) {
	delete(r.runs, u.line)
	u.in.moved = true
	close(u.in.ended)
	if u.stop != nil {
		u.stop(errShutdown)
	}
}

// has reports whether u runs a turn in an attempt or in a later one. The caller holds Runner.mu.
func (u *run) has(ref chat.TurnRef) bool {
	return u.ref.Turn == ref.Turn && max(u.ref.Attempt, int(u.in.attempt.Load())) >= ref.Attempt
}

// add adds a turn, so that it receives what arrives. The caller holds mu.
func (r *Runner) add(u *run) {
	u.in.init()
	r.runs[u.line] = u
}

// begin starts a turn, now or when Run runs. The caller holds mu.
func (r *Runner) begin(u *run) {
	if u.waits = r.spawn == nil; !u.waits {
		r.spawn(u)
	}
}

// open returns the turns that have not ended in the log.
func (r *Runner) open() map[chat.TurnID]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[chat.TurnID]bool, len(r.runs))
	for _, u := range r.runs {
		all[u.ref.Turn] = true
	}
	return all
}

// Running counts the running turns by agent.
func (r *Runner) Running() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, u := range r.runs {
		n[u.agent]++
	}
	return n
}

// Run resumes the turns that were running when the last process ended, and runs turns until ctx ends. Then it waits for
// the running turns, at most for the grace period, and returns. Turns that did not end are resumed at the next start.
func (r *Runner) Run(ctx context.Context) error {
	turns, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var wg sync.WaitGroup
	waiting, err := r.recover(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("find interrupted turns: %w", err)
	}
	r.serve(func(u *run) {
		wg.Go(func() {
			r.answer(turns, u)
			r.agents.workers.finished(u.ref.Turn)
		})
	})
	wg.Go(func() { r.resumeLater(ctx, waiting) })
	<-ctx.Done()
	r.serve(nil)
	grace := time.AfterFunc(r.opt.Grace, func() { end(errShutdown) })
	defer grace.Stop()
	r.releaseWaiting()
	wg.Wait()
	return nil
}

// serve starts the waiting turns with spawn, and from now on all others. With nil, turns wait from now on.
func (r *Runner) serve(spawn func(*run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spawn = spawn; spawn == nil {
		return
	}
	for _, u := range r.runs {
		if u.waits {
			u.waits = false
			spawn(u)
		}
	}
}

// releaseWaiting ends the turns that wait for a person, now or later in the grace period, because a person may take longer
// than any grace period.
func (r *Runner) releaseWaiting() {
	r.mu.Lock()
	runs := slices.Collect(maps.Values(r.runs))
	r.mu.Unlock()
	for _, u := range runs {
		u.in.OnWait(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if u.stop != nil {
				u.stop(errShutdown)
			}
		})
	}
}

// answer runs one turn; until ends after the grace period.
func (r *Runner) answer(until context.Context, u *run) {
	defer close(u.in.finished)
	ctx, cancel := context.WithCancelCause(until)
	defer cancel(nil)
	r.mu.Lock()
	u.stop = cancel
	switch {
	case u.in.moved:
		cancel(errShutdown)
	case u.stopped:
		cancel(agent.ErrStopped)
	}
	r.mu.Unlock()

	ctx, span := r.startSpan(ctx, u)
	defer span.End()

	ref, outcome, cause := r.ask(ctx, u, span)
	if outcome == "" {
		return
	}
	setOutcome(span, outcome, cause)
	r.end(until, u, ref, outcome, cause)
}

func (r *Runner) startSpan(ctx context.Context, u *run) (context.Context, trace.Span) {
	return r.opt.Tracer.Start(ctx, "turn", trace.WithAttributes(
		attribute.String("parley.session", string(u.ref.Session)), attribute.String("parley.turn", string(u.ref.Turn)),
		attribute.String("parley.agent", u.agent), attribute.Int("parley.attempt", u.ref.Attempt)))
}

func setOutcome(span trace.Span, outcome chat.Outcome, cause string) {
	if outcome == chat.Failed {
		span.SetStatus(codes.Error, cause)
	}
	span.SetAttributes(attribute.String("parley.outcome", string(outcome)))
}

// end stores the end of a turn. While the log cannot be written it tries again, because an open turn blocks its line until
// the next start.
func (r *Runner) end(until context.Context, u *run, ref chat.TurnRef, outcome chat.Outcome, cause string) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := r.sessions.EndTurn(context.WithoutCancel(until), ref, outcome, cause)
		switch chat.CodeOf(err) {
		case "", chat.Conflict, chat.Gone, chat.NotFound:
			return
		}
		r.opt.Logger.ErrorContext(until, "a turn could not be ended; trying again", "session", ref.Session, "turn", ref.Turn, "agent", u.agent, "err", err)
		if sleep.For(until, wait) != nil {
			return
		}
	}
}

// ask calls the agent and returns the turn in its last attempt. The outcome is empty if the next process has to resume the
// turn.
func (r *Runner) ask(ctx context.Context, u *run, span trace.Span) (ref chat.TurnRef, outcome chat.Outcome, cause string) {
	defer close(u.in.abandoned)
	ref = u.ref
	turn, err := r.load(ctx, u)
	if err == nil {
		if err = turn.storeTrace(ctx, u, span); err == nil {
			err = r.callAgent(ctx, u, turn)
		}
		for unwritable(err) && sleep.For(ctx, resumePause) == nil {
			if err = turn.nextAttempt(ctx, afterSilence, false); err == nil {
				err = r.callAgent(ctx, u, turn)
			}
		}
		ref = turn.Ref() // the pool may have begun another attempt
	}
	outcome, cause = r.outcome(ctx, u, turn, err)
	return ref, outcome, cause
}

// outcome returns how a turn ended and stores an error of its agent. turn is nil if it could not be loaded.
func (r *Runner) outcome(ctx context.Context, u *run, turn *turn, err error) (outcome chat.Outcome, cause string) {
	switch {
	case agent.Stopped(ctx):
		return chat.Stopped, ""
	case errors.Is(context.Cause(ctx), errShutdown):
		return "", ""
	case err == nil:
		return chat.Done, ""
	}
	if turn != nil {
		turn.fault(ctx, err)
	}
	if errors.Is(err, agent.ErrInterrupted) {
		return chat.Interrupted, agent.ErrorText(err)
	}
	r.opt.Logger.WarnContext(ctx, "a turn failed", "session", u.ref.Session, "turn", u.ref.Turn, "agent", u.agent, "err", err)
	return chat.Failed, agent.ErrorText(err)
}

// unwritable reports whether a turn could not go on because no node of the cluster could write its session, or because it is not known
// whether one has. The agent is called again when it can: an owner that was cut off for a while stays the owner, and if another node
// has taken the session over, that one runs the turn. Errors that the agent has from elsewhere do not count.
func unwritable(err error) bool {
	_, ok := errors.AsType[*unwrittenError](err)
	return ok
}

// callAgent calls the agent. It returns without waiting for an agent that ignores the end of its context; what the agent
// stores later is refused.
func (r *Runner) callAgent(ctx context.Context, u *run, turn *turn) error {
	done := make(chan error, 1)
	go func() { done <- r.agents.answer(ctx, u.agent, turn, r.opt.Logger) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return r.waitStopped(ctx, u, done)
	}
}

// waitStopped waits for an agent whose context has ended.
func (r *Runner) waitStopped(ctx context.Context, u *run, done <-chan error) error {
	timeout := time.NewTimer(u.in.stopTimeout(r.opt.StopGrace))
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-u.in.ended:
		return context.Cause(ctx)
	case <-timeout.C:
		r.opt.Logger.WarnContext(ctx, "an agent ignores a stop; its turn is ended without it", "session", u.ref.Session, "turn", u.ref.Turn, "agent", u.agent)
		return context.Cause(ctx)
	}
}

// Erased reports that a session was erased: its turns end.
func (r *Runner) Erased(id chat.SessionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, u := range r.runs {
		if at.session == id {
			delete(r.runs, at)
			r.release(u)
		}
	}
}
