package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/parley-hq/parley/chat"
)

// Options of a Runner; the zero value works.
type Options struct {
	Grace     time.Duration // how long turns may go on after Run's ctx ends; 0 means 10 s
	StopGrace time.Duration // how long an agent may ignore a stop; 0 means 5 s
	Clean     bool          // the last process ended in order: its turns are not to blame
	Tracer    trace.Tracer  // nil means no spans
	Store     StoreFunc     // keeps files that agents make; nil means they cannot
	Logger    *slog.Logger  // nil means none
}

// StoreFunc keeps a file of a session. It calls commit with the size once the file is
// in place; when that fails the path has again what it had before.
type StoreFunc func(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(size int64) error) error

// Runner gives turns to agents.
type Runner struct {
	sessions sessions
	agents   *Registry
	opt      Options

	mu     sync.Mutex
	runs   map[line]*run
	starts []*run     // turns that wait for Run
	spawn  func(*run) // answers a turn; nil while Run does not run

	imports []chat.SessionID // whose turns are to be taken up
	came    chan struct{}    // there are some; room for one
}

// line is where at most one turn runs.
type line struct {
	session    chat.SessionID
	workstream string
}

// run is a turn under way. What is below box is guarded by Runner.mu; the rest
// does not change once it has begun.
type run struct {
	ref     chat.TurnRef
	line    line
	agent   string
	started chat.Seq
	trigger chat.Seq
	begun   []chat.Event // those two, as far as they were told; the log has them all
	resumed bool
	box     mailbox

	stop    context.CancelCauseFunc // nil until it runs
	stopped bool
}

// errStopped is the cause of a turn's context when somebody stopped it;
// errShutdown when the server ends.
var (
	errStopped  = errors.New("the turn was stopped")
	errShutdown = errors.New("the server is shutting down")
)

// Stopped reports whether ctx ended because somebody stopped the turn.
func Stopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopped) }

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
	return &Runner{agents: agents, opt: opt, runs: map[line]*run{}, came: make(chan struct{}, 1)}
}

// Attach names the sessions whose turns are run. The sessions tell the runner of
// commits and the runner writes to the sessions, so one of them comes second.
func (r *Runner) Attach(s sessions) { r.sessions = s }

// Committed tells the runner what was stored. It does not block.
func (r *Runner) Committed(evs []chat.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range evs {
		e := &evs[i]
		at := line{e.Session, e.Workstream}
		switch b := e.Body.(type) {
		case chat.TurnStarted:
			u := &run{ref: chat.TurnRef{Session: e.Session, Turn: b.TurnID, Attempt: 1}, line: at, agent: b.Agent, started: e.Seq, trigger: b.Trigger}
			for j := range evs[:i+1] {
				if s := evs[j].Seq; evs[j].Session == e.Session && (s == u.started || s == u.trigger) {
					u.begun = append(u.begun, evs[j])
				}
			}
			r.note(u)
			r.begin(u)
		case chat.TurnCompleted:
			if u := r.runs[at]; u != nil && u.ref.Turn == b.TurnID {
				delete(r.runs, at)
				r.ended(u)
			}
		case chat.TurnStopRequested:
			if u := r.runs[at]; u != nil && u.ref.Turn == b.TurnID {
				u.stopped = true
				u.box.stopBy.Store(int64(b.Deadline))
				if u.stop != nil {
					u.stop(errStopped)
				}
			}
		case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
			if u := r.runs[at]; u != nil {
				u.box.put(*e)
			}
		case chat.UserMessage, chat.WorkstreamProgress, chat.WorkstreamWarning, chat.WorkstreamCompleted,
			chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamCanceled:
			if u := r.runs[at]; u != nil {
				u.box.hear()
			}
		case chat.WorkstreamMessage:
			if u := r.runs[line{e.Session, b.ID}]; u != nil {
				u.box.hear()
			}
		case chat.WorkstreamSteered:
			if u := r.runs[line{e.Session, b.ID}]; u != nil {
				u.box.steer(b.Command)
			}
		}
	}
}

// ended lets go of a turn that is over in the log, or whose log is no more: when its agent did not end
// it, there is nothing more for it to say. The caller holds mu.
func (r *Runner) ended(u *run) {
	close(u.box.over)
	if u.stop != nil {
		u.stop(errStopped)
	}
	u.stopped = true
}

// note makes a turn known, so that what comes in reaches it. The caller holds mu.
func (r *Runner) note(u *run) {
	u.box.init()
	r.runs[u.line] = u
}

// begin lets a turn be answered, at once where Run runs: somebody waits for the
// first word. The caller holds mu.
func (r *Runner) begin(u *run) {
	if r.spawn != nil {
		r.spawn(u)
		return
	}
	r.starts = append(r.starts, u)
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

// Running counts the turns under way by agent.
func (r *Runner) Running() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, u := range r.runs {
		n[u.agent]++
	}
	return n
}

// Run takes up the turns that were under way when the last process ended, then
// answers turns until ctx ends, gives the turns under way their grace, and
// returns when all have ended. Turns that did not end in time are taken up at
// the next start.
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
			r.agents.workers.settle(u.ref.Turn)
		})
	})
	wg.Go(func() { r.retake(ctx, waiting) })
	<-ctx.Done()
	r.serve(nil)
	grace := time.AfterFunc(r.opt.Grace, func() { end(errShutdown) })
	defer grace.Stop()
	r.leave()
	wg.Wait()
	return nil
}

// serve begins the turns that wait, and from now on all others with spawn; nil
// lets them wait.
func (r *Runner) serve(spawn func(*run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spawn = spawn; spawn == nil {
		return
	}
	for _, u := range r.starts {
		spawn(u)
	}
	r.starts = nil
}

// leave lets go of the turns that wait for a person, or begin to: no grace would
// be enough.
func (r *Runner) leave() {
	r.mu.Lock()
	runs := slices.Collect(maps.Values(r.runs))
	r.mu.Unlock()
	for _, u := range runs {
		u.box.leave(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if u.stop != nil {
				u.stop(errShutdown)
			}
		})
	}
}

// answer runs one turn to its end; until ends when no more time is given.
func (r *Runner) answer(until context.Context, u *run) {
	defer close(u.box.shut)
	ctx, cancel := context.WithCancelCause(until)
	defer cancel(nil)
	r.mu.Lock()
	u.stop = cancel
	if u.stopped {
		cancel(errStopped)
	}
	r.mu.Unlock()

	ctx, span := r.opt.Tracer.Start(ctx, "turn", trace.WithAttributes(
		attribute.String("parley.session", string(u.ref.Session)), attribute.String("parley.turn", string(u.ref.Turn)),
		attribute.String("parley.agent", u.agent), attribute.Int("parley.attempt", u.ref.Attempt)))
	defer span.End()

	ref, outcome, cause := r.ask(ctx, u, span)
	if outcome == "" {
		return
	}
	if outcome == chat.Failed {
		span.SetStatus(codes.Error, cause)
	}
	span.SetAttributes(attribute.String("parley.outcome", string(outcome)))
	r.end(until, u, ref, outcome, cause)
}

// end puts the end of a turn into the log. While the log cannot be written it
// tries again: a turn that nobody ends would block its line until the next start.
func (r *Runner) end(until context.Context, u *run, ref chat.TurnRef, outcome chat.Outcome, cause string) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := r.sessions.EndTurn(context.WithoutCancel(until), ref, outcome, cause)
		switch chat.CodeOf(err) {
		case "", chat.Conflict, chat.Gone, chat.NotFound:
			return
		}
		r.opt.Logger.ErrorContext(until, "a turn could not be ended; trying again", "session", ref.Session, "turn", ref.Turn, "agent", u.agent, "err", err)
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-until.Done():
			pause.Stop()
			return
		}
	}
}

// ask lets the agent answer and returns the turn in its last attempt; there is
// no outcome when the turn is to be taken up by another process.
func (r *Runner) ask(ctx context.Context, u *run, span trace.Span) (ref chat.TurnRef, outcome chat.Outcome, cause string) {
	ref = u.ref
	turn, err := r.turn(ctx, u)
	if err == nil {
		if sc := span.SpanContext(); sc.IsSampled() && !u.resumed {
			err = turn.note(ctx, "trace", chat.AgentTrace{TraceID: sc.TraceID().String()})
		}
		if err == nil {
			err = r.safely(ctx, u, turn)
		}
		ref = turn.Ref() // a pool may have begun another attempt
	}
	switch {
	case Stopped(ctx):
		return ref, chat.Stopped, ""
	case errors.Is(context.Cause(ctx), errShutdown):
		return ref, "", ""
	case err == nil:
		return ref, chat.Done, ""
	}
	if turn != nil {
		turn.fault(ctx, err)
	}
	if errors.Is(err, ErrInterrupted) {
		return ref, chat.Interrupted, publicText(err)
	}
	r.opt.Logger.WarnContext(ctx, "a turn failed", "session", ref.Session, "turn", ref.Turn, "agent", u.agent, "err", err)
	return ref, chat.Failed, publicText(err)
}

// publicText is what people are told of an agent's error. Agents are part of
// the installation, so their own words are shown.
func publicText(err error) string {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return e.Msg
	}
	return err.Error()
}

// safely calls the agent and gives up on one that ignores the end of its
// context: what it says later is refused, and its goroutine is left to itself.
func (r *Runner) safely(ctx context.Context, u *run, turn *Turn) error {
	defer close(u.box.left)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.opt.Logger.ErrorContext(ctx, "an agent panicked", "session", u.ref.Session, "turn", u.ref.Turn, "agent", u.agent, "fault", p, "stack", string(debug.Stack()))
				done <- fmt.Errorf("the agent failed: %v", p)
			}
		}()
		done <- r.agents.answer(ctx, u.agent, turn)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(u.box.patience(r.opt.StopGrace))
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-u.box.over:
		return context.Cause(ctx)
	case <-patience.C:
		r.opt.Logger.WarnContext(ctx, "an agent does not obey a stop; its turn is ended without it", "session", u.ref.Session, "turn", u.ref.Turn, "agent", u.agent)
		return context.Cause(ctx)
	}
}

// Erased tells the runner that a session is no more: its turns end.
func (r *Runner) Erased(id chat.SessionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, u := range r.runs {
		if at.session == id {
			delete(r.runs, at)
			r.ended(u)
		}
	}
}
