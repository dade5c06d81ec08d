package client

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// workTurn is a turn that a worker has. It is the agent.Transport of the turn: what changes the turn goes over the
// worker's connection, what reads the session goes over HTTP.
type workTurn struct {
	w          *worker
	ctx        context.Context // of the turn
	end        context.CancelCauseFunc
	in         *agent.Inbox
	assignment chat.Assignment // as it was given first

	assigned bool        // the server gave the turn to the worker's connection; guarded by worker.mu
	given    int         // how often it gave the turn again; guarded by worker.mu
	lost     *time.Timer // runs while the turn is not assigned; guarded by worker.mu

	mu      sync.Mutex
	attempt int
	shown   map[chat.BlockID]int // bytes of open blocks that the server has, as far as is known
	open    []chat.Block         // blocks that this worker has shown and not stored
	news    []chat.Event         // messages and news that arrived and were not taken
}

// reassign applies the state of the turn on the server, at its start and whenever the worker has connected again.
func (t *workTurn) reassign(a *chat.Assignment) {
	t.in.SetPaused(a.Paused)
	t.in.PutAnswers(a.Events)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempt = a.Attempt
	t.shown = map[chat.BlockID]int{}
	for _, b := range a.Open {
		t.shown[b.ID] = len(b.Text)
	}
}

// stopTimer stops the timer that gives the turn up. The caller holds worker.mu.
func (t *workTurn) stopTimer() {
	if t.lost != nil {
		t.lost.Stop()
		t.lost = nil
	}
}

// receive adds an event that the server sent. After a reconnect the server sends all of them again.
func (t *workTurn) receive(e chat.Event) {
	if !t.in.Put(e) {
		return
	}
	if b, ok := e.Body.(chat.WorkstreamSteered); ok {
		t.in.Steer(b.Command)
	}
	if _, ok := e.Body.(chat.UserMessage); ok || strings.HasPrefix(e.Type, "workstream.") {
		t.mu.Lock()
		t.news = append(t.news, e)
		t.mu.Unlock()
	}
}

// storeFault stores the error of the agent if it has a code.
func (t *workTurn) storeFault(err error) {
	t.mu.Lock()
	open := slices.Clone(t.open)
	t.mu.Unlock()
	for _, d := range agent.FaultDrafts(t.Ref(), open, err) {
		_, _ = t.Append(t.ctx, []chat.Draft{d}) // the turn fails in any case
	}
}

// Ref names the turn in its current attempt.
func (t *workTurn) Ref() chat.TurnRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	return chat.TurnRef{Session: t.assignment.Session, Turn: t.assignment.Turn, Attempt: t.attempt}
}

// Append stores drafts of the turn. The server puts in the attempt.
func (t *workTurn) Append(ctx context.Context, list []chat.Draft) ([]chat.Event, error) {
	for i := range list {
		list[i].Turn, list[i].Workstream = t.assignment.Turn, t.assignment.Workstream
	}
	if _, err := normalize(list); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	r, err := t.call(ctx, workFrame{Op: "append", Events: raw})
	if err != nil {
		return nil, err
	}
	var events []chat.Event
	if err := json.Unmarshal(r.events, &events); err != nil || len(events) != len(list) {
		return nil, chat.Errorf(chat.Internal, "the server did not return the events of a step").Because(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		t.open = slices.DeleteFunc(t.open, func(b chat.Block) bool { return b.ID == chat.FinishedBlock(e.Body) })
	}
	return events, nil
}

// Preview shows the text of an open block. It does not wait for a reply: a piece that was lost is sent again with the next
// one, and the stored block has the whole text.
func (t *workTurn) Preview(ctx context.Context, b chat.Block, _ int) error {
	ctx, done := t.bounded(ctx)
	defer done()
	conn, err := t.connection(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.open = append(slices.DeleteFunc(t.open, func(o chat.Block) bool { return o.ID == b.ID }), b)
	shown := t.shown[b.ID]
	t.shown[b.ID] = max(shown, len(b.Text))
	t.mu.Unlock()
	if shown >= len(b.Text) {
		return nil
	}
	f := workFrame{Op: "preview", TurnID: t.assignment.Turn, Previews: []piece{{Block: b.ID, Offset: shown, Text: b.Text[shown:], Kind: b.Kind, Workstream: b.Workstream, Turn: b.Turn}}}
	if write(context.WithoutCancel(ctx), conn, f) != nil {
		t.w.disconnect(conn) // the next assignment has the state of the server
	}
	return nil
}

// StoreFile uploads a file of the session.
func (t *workTurn) StoreFile(ctx context.Context, path, mediaType string, body io.Reader, commit func(size int64) error) error {
	a, err := t.w.c.Upload(ctx, t.assignment.Session, path, body, UploadOptions{MediaType: mediaType})
	if err != nil {
		return err
	}
	return commit(a.Size)
}

// WithdrawPrompt is not possible for a worker: the server closes its prompts when the turn ends.
func (t *workTurn) WithdrawPrompt(context.Context, string) error { return nil }

// Read returns stored events of the session.
func (t *workTurn) Read(ctx context.Context, r chat.Range) ([]chat.Fact, bool, error) {
	q := EventQuery{After: r.After, Before: r.Before, Desc: r.Desc, Types: r.Types, Page: r.Limit}
	if r.Workstream != nil {
		if q.Workstream = *r.Workstream; q.Workstream == "" {
			q.Workstream = "main"
		}
	}
	page, err := t.w.c.page(ctx, t.assignment.Session, q, 0)
	if err != nil {
		return nil, false, err
	}
	facts := make([]chat.Fact, len(page.Events))
	for i := range page.Events {
		facts[i] = chat.Fact{Seq: page.Events[i].Seq, JSON: page.Events[i].AppendJSON(nil)}
	}
	return facts, page.More, nil
}

// State computes the state of the session from its events.
func (t *workTurn) State(ctx context.Context) (*chat.State, error) {
	st := &chat.State{}
	for e, err := range t.w.c.Events(ctx, t.assignment.Session, EventQuery{}) {
		if err != nil {
			return nil, err
		}
		st.Apply(&e)
	}
	return st, nil
}

// TakeMessages takes the user messages that arrived during the turn.
func (t *workTurn) TakeMessages(context.Context) ([]chat.Event, error) {
	return t.takeNews(func(e *chat.Event) bool { _, ok := e.Body.(chat.UserMessage); return ok }), nil
}

// TakeEvents takes all that arrived during the turn, or the news of some workstreams. The server has taken them into the
// turn already.
func (t *workTurn) TakeEvents(_ context.Context, workstreams ...string) ([]chat.Event, error) {
	return t.takeNews(func(e *chat.Event) bool {
		return len(workstreams) == 0 || slices.Contains(workstreams, chat.ChildOf(e.Body))
	}), nil
}

func (t *workTurn) takeNews(want func(e *chat.Event) bool) (taken []chat.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = slices.DeleteFunc(t.news, func(e chat.Event) bool {
		if !want(&e) {
			return false
		}
		taken = append(taken, e)
		return true
	})
	return taken
}

// Launch begins a workstream from the line of the turn.
func (t *workTurn) Launch(ctx context.Context, l chat.Launch) (chat.WorkstreamStatus, error) {
	return t.workstream(ctx, workFrame{Op: "launch_workstream", Launch: &l, ClientID: l.ClientID})
}

// MessageWorkstream sends a message to a workstream.
func (t *workTurn) MessageWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return t.workstream(ctx, workFrame{Op: "message_workstream", Workstream: name, Text: m.Text, ClientID: m.ClientID})
}

// SteerWorkstream sends a steering command to a workstream.
func (t *workTurn) SteerWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return t.workstream(ctx, workFrame{Op: "steer_workstream", Workstream: name, Command: m.Command, Text: m.Text, ClientID: m.ClientID})
}

// TerminateWorkstream ends a workstream.
func (t *workTurn) TerminateWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error) {
	return t.workstream(ctx, workFrame{Op: "terminate_workstream", Workstream: name, Reason: m.Text})
}

// ReportWorkstream reports the progress of the turn's workstream.
func (t *workTurn) ReportWorkstream(ctx context.Context, clientID string, p chat.WorkstreamProgress) error {
	_, err := t.call(ctx, workFrame{Op: "workstream_progress", Progress: &p, ClientID: clientID})
	return err
}

// Workstreams returns the status of all workstreams of the session.
func (t *workTurn) Workstreams(ctx context.Context) ([]chat.WorkstreamStatus, error) {
	r, err := t.call(ctx, workFrame{Op: "workstream_status"})
	return r.workstreams, err
}

func (t *workTurn) workstream(ctx context.Context, f workFrame) (chat.WorkstreamStatus, error) {
	r, err := t.call(ctx, f)
	if err != nil {
		return chat.WorkstreamStatus{}, err
	}
	if len(r.workstreams) != 1 {
		return chat.WorkstreamStatus{}, chat.Errorf(chat.Internal, "the server did not return the status of the workstream")
	}
	return r.workstreams[0], nil
}
