package agentpool

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// sessions is the part of the session rules that agents need.
type sessions interface {
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error
	EndTurn(ctx context.Context, ref chat.TurnRef, outcome chat.Outcome, cause string) error
	ResumeTurn(ctx context.Context, ref chat.TurnRef, reason string, crash bool) (chat.TurnRef, bool, error)
	WithdrawPrompt(ctx context.Context, ref chat.TurnRef, requestID string) error
	TakeSteered(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error)
	TakeEvents(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error)
	TakeEventsOf(ctx context.Context, ref chat.TurnRef, workstreams []string) ([]chat.Seq, error)
	Launch(ctx context.Context, c chat.Caller, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error)
	MessageWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	SteerWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	TerminateWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	ReportWorkstream(ctx context.Context, ref chat.TurnRef, clientID string, p chat.WorkstreamProgress) error
	Workstreams(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.WorkstreamStatus, error)
	Turns(ctx context.Context, id chat.SessionID, f func(ref chat.TurnRef, workstream string, t chat.Turn)) error
	Working(ctx context.Context) ([]chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error)
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	Blocks(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.Block, error)
}

// turn is a running turn. It is the agent.Transport of agents in the process.
type turn struct {
	id        chat.TurnID
	session   chat.SessionID
	workspace string
	sessions  sessions
	store     core.StoreFunc
	caller    chat.Caller
	in        *turnInput

	mu         sync.Mutex
	assignment chat.Assignment // of the current attempt
}

// load reads a turn from its session.
func (r *Runner) load(ctx context.Context, u *run) (*turn, error) {
	t := &turn{
		id: u.ref.Turn, session: u.ref.Session, sessions: r.sessions, store: r.opt.Store, in: &u.in, caller: agentCaller(u.agent),
		assignment: chat.Assignment{TurnRef: u.ref, Agent: u.agent, Workstream: u.line.workstream},
	}
	ctx = context.WithoutCancel(ctx)
	a := &t.assignment
	var err error
	if a.Trigger, err = t.begun(ctx, u, u.trigger); err != nil {
		return nil, err
	}
	if a.Started, err = t.begun(ctx, u, u.started); err != nil {
		return nil, err
	}
	s, err := r.sessions.Get(ctx, t.caller, t.session)
	if err != nil {
		return nil, err
	}
	t.workspace = s.Workspace
	if a.Workstream != "" {
		st, err := t.State(ctx)
		if err != nil {
			return nil, err
		}
		if w := st.Workstream(a.Workstream); w != nil {
			a.Launch = &w.WorkstreamLaunched
			if w.Paused {
				t.in.SetPaused(true)
			}
		}
	}
	if u.resumed {
		err = t.loadPast(ctx)
	}
	return t, err
}

// agentCaller is the caller for the turns of an agent.
func agentCaller(name string) chat.Caller {
	return chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: name}, Scopes: []chat.Scope{chat.ScopeAgent, chat.ScopeAdmin}, AllWorkspaces: true}
}

// begun returns an event that was committed together with the start of the turn, or reads it.
func (t *turn) begun(ctx context.Context, u *run, seq chat.Seq) (chat.Event, error) {
	for _, e := range u.begun {
		if e.Seq == seq {
			return e, nil
		}
	}
	return t.event(ctx, seq)
}

// event reads one event of the session.
func (t *turn) event(ctx context.Context, seq chat.Seq) (chat.Event, error) {
	return t.sessions.Event(ctx, t.caller, t.session, seq)
}

func (t *turn) events(ctx context.Context, seqs []chat.Seq) ([]chat.Event, error) {
	var events []chat.Event
	for _, seq := range seqs {
		e, err := t.event(ctx, seq)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// loadPast reads what earlier attempts stored, received and left open.
func (t *turn) loadPast(ctx context.Context) error {
	var past []chat.Event
	var taken []chat.Seq
	inputs := map[chat.Seq]chat.Event{}
	read := func(r chat.Range) ([]chat.Fact, bool, error) { return t.Read(ctx, r) }
	for e, err := range chat.Events(chat.Facts(chat.Range{After: t.assignment.Started.Seq - 1}, read)) {
		if err != nil {
			return err
		}
		if _, ok := e.Body.(chat.UserMessage); ok || strings.HasPrefix(e.Type, "workstream.") {
			inputs[e.Seq] = e
		}
		if e.Turn != t.id {
			continue
		}
		past = append(past, e)
		if b, ok := e.Body.(chat.TurnInput); ok {
			taken = append(taken, b.Sequences...)
		}
	}
	t.in.PutAnswers(past)
	for _, seq := range taken {
		e, ok := inputs[seq]
		if !ok { // it was stored before the turn began
			var err error
			if e, err = t.event(ctx, seq); err != nil {
				return err
			}
		}
		t.in.Put(e)
	}
	open, err := t.openBlocks(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.assignment.Events, t.assignment.Open = past, open
	return nil
}

// openBlocks returns the open blocks of the turn.
func (t *turn) openBlocks(ctx context.Context) ([]chat.Block, error) {
	all, err := t.sessions.Blocks(ctx, t.caller, t.session)
	return slices.DeleteFunc(slices.Clone(all), func(b chat.Block) bool { return b.Turn != t.id }), err
}

// current returns the assignment of the current attempt.
func (t *turn) current() chat.Assignment {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.assignment
	a.Paused = t.in.Paused()
	return a
}

// forAgent returns the turn in its current attempt as an agent in the process gets it.
func (t *turn) forAgent() *agent.Turn { return agent.NewTurn(t.current(), t.in.Inbox, t) }

// nextAttempt begins a new attempt; crash reports whether the end of the last one counts as a crash of the turn.
func (t *turn) nextAttempt(ctx context.Context, reason string, crash bool) error {
	next, ok, err := t.sessions.ResumeTurn(ctx, t.Ref(), reason, crash)
	if err != nil {
		return written(err)
	}
	if !ok {
		return chat.Errorf(chat.Conflict, "the turn was given up")
	}
	t.in.attempt.Store(int64(next.Attempt))
	t.mu.Lock()
	t.assignment.TurnRef = next
	t.mu.Unlock()
	return t.loadPast(ctx)
}

// resumed reports whether an earlier attempt was interrupted.
func (t *turn) resumed() bool { return t.Ref().Attempt > 1 }

// storeOnce stores an event of the server about the turn, once over all attempts.
func (t *turn) storeOnce(ctx context.Context, key string, body chat.Body) error {
	_, err := t.Append(ctx, []chat.Draft{chat.NewDraft(body).As(string(t.id) + "/" + key)})
	return err
}

// storeTrace stores the trace of a sampled turn.
func (t *turn) storeTrace(ctx context.Context, u *run, span trace.Span) error {
	if sc := span.SpanContext(); sc.IsSampled() && !u.resumed {
		return t.storeOnce(ctx, "trace", chat.AgentTrace{TraceID: sc.TraceID().String()})
	}
	return nil
}

// fault stores why the turn ends. The turn ends even if that fails.
func (t *turn) fault(ctx context.Context, err error) {
	open, _ := t.openBlocks(ctx)
	for _, d := range agent.FaultDrafts(t.Ref(), open, err) {
		_, _ = t.Append(ctx, []chat.Draft{d})
	}
}

// unwrittenError is the error of a write of the turn that no node of the cluster could store, or whose outcome is not known.
type unwrittenError struct{ error }

func (e *unwrittenError) Unwrap() error { return e.error }

// written returns the error of a write of the turn, as an unwrittenError if it is one.
func written(err error) error {
	switch chat.ReasonOf(err) {
	case chat.NoOwner, chat.OwnerChanged, chat.OutcomeUnknown:
		return &unwrittenError{err}
	}
	return err
}

// Ref names the turn in its current attempt.
func (t *turn) Ref() chat.TurnRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.assignment.TurnRef
}

// Append stores drafts of the turn.
func (t *turn) Append(ctx context.Context, drafts []chat.Draft) ([]chat.Event, error) {
	ref := t.Ref()
	for i := range drafts {
		drafts[i].Turn, drafts[i].Attempt, drafts[i].Workstream = ref.Turn, ref.Attempt, t.assignment.Workstream
	}
	events, err := t.sessions.Append(ctx, t.caller, ref.Session, drafts)
	return events, written(err)
}

// Preview shows the text of an open block from byte shown on.
func (t *turn) Preview(ctx context.Context, b chat.Block, shown int) error {
	return written(t.sessions.Preview(ctx, t.caller, t.session, []chat.Preview{{
		Block: b.ID, Offset: shown, Text: b.Text[shown:], Kind: b.Kind, Workstream: b.Workstream, Turn: t.id, Attempt: t.Ref().Attempt,
	}}))
}

// StoreFile stores a file of the session.
func (t *turn) StoreFile(ctx context.Context, path, mediaType string, body io.Reader, commit func(size int64) error) error {
	if t.store == nil {
		return chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	r := &bodyReader{Reader: body}
	err := t.store(ctx, t.session, path, mediaType, r, commit)
	if r.failed {
		return err // of the agent's own source
	}
	return written(err)
}

// bodyReader notes whether a body could not be read.
type bodyReader struct {
	io.Reader
	failed bool
}

func (r *bodyReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.failed = r.failed || err != nil && err != io.EOF
	return n, err
}

// WithdrawPrompt closes a prompt of the turn.
func (t *turn) WithdrawPrompt(ctx context.Context, requestID string) error {
	return written(t.sessions.WithdrawPrompt(ctx, t.Ref(), requestID))
}

// Read returns stored events of the session.
func (t *turn) Read(ctx context.Context, r chat.Range) ([]chat.Fact, bool, error) {
	return t.sessions.Read(ctx, t.caller, t.session, r)
}

// State returns the state of the session.
func (t *turn) State(ctx context.Context) (*chat.State, error) {
	return t.sessions.State(ctx, t.caller, t.session)
}

// TakeMessages takes the user messages that arrived during the turn.
func (t *turn) TakeMessages(ctx context.Context) ([]chat.Event, error) {
	seqs, err := t.sessions.TakeSteered(ctx, t.Ref())
	if err != nil {
		return nil, written(err)
	}
	return t.events(ctx, seqs)
}

// TakeEvents takes all events that arrived during the turn, or those of some workstreams.
func (t *turn) TakeEvents(ctx context.Context, workstreams ...string) (events []chat.Event, err error) {
	var seqs []chat.Seq
	if len(workstreams) > 0 {
		seqs, err = t.sessions.TakeEventsOf(ctx, t.Ref(), workstreams)
	} else {
		seqs, err = t.sessions.TakeEvents(ctx, t.Ref())
	}
	if err != nil {
		return nil, written(err)
	}
	return t.events(ctx, seqs)
}

// Launch begins a workstream from the line of the turn.
func (t *turn) Launch(ctx context.Context, l chat.Launch) (chat.WorkstreamStatus, error) {
	ref := t.Ref()
	l.Parent, l.Turn, l.Attempt = t.assignment.Workstream, ref.Turn, ref.Attempt
	st, err := t.sessions.Launch(ctx, t.caller, t.session, l)
	return st, written(err)
}

// MessageWorkstream sends a follow-up to a workstream.
func (t *turn) MessageWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	st, err := t.sessions.MessageWorkstream(ctx, t.caller, t.session, name, t.from(m))
	return st, written(err)
}

// SteerWorkstream sends a directive to a workstream.
func (t *turn) SteerWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	st, err := t.sessions.SteerWorkstream(ctx, t.caller, t.session, name, t.from(m))
	return st, written(err)
}

// TerminateWorkstream ends a workstream.
func (t *turn) TerminateWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	st, err := t.sessions.TerminateWorkstream(ctx, t.caller, t.session, name, t.from(m))
	return st, written(err)
}

func (t *turn) from(m chat.Steering) chat.Steering {
	ref := t.Ref()
	m.Turn, m.Attempt = ref.Turn, ref.Attempt
	return m
}

// ReportWorkstream reports the progress of the turn's workstream.
func (t *turn) ReportWorkstream(ctx context.Context, clientID string, p chat.WorkstreamProgress) error {
	return written(t.sessions.ReportWorkstream(ctx, t.Ref(), clientID, p))
}

// Workstreams returns the status of all workstreams of the session.
func (t *turn) Workstreams(ctx context.Context) ([]chat.WorkstreamStatus, error) {
	return t.sessions.Workstreams(ctx, t.caller, t.session)
}
