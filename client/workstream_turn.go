package client

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// Assignment returns what the line of the turn was launched for: its task, tools,
// model and context. ok is false on the main line.
func (t *WorkTurn) Assignment() (launch chat.WorkstreamLaunched, ok bool) {
	if t.launch == nil {
		return launch, false
	}
	return *t.launch, true
}

// Launch begins a workstream and returns at once; it runs in the background,
// also when this turn has ended. Its result begins a turn of this line, or is
// among the News of the one that runs.
func (t *WorkTurn) Launch(ctx context.Context, l chat.Launch) (chat.WorkstreamStatus, error) {
	return t.one(ctx, workFrame{Op: "launch_workstream", Launch: &l, ClientID: t.key(t.step())})
}

// Message hands a follow-up to a workstream, named by its id or launch id.
func (t *WorkTurn) Message(ctx context.Context, workstream, text string) (chat.WorkstreamStatus, error) {
	return t.one(ctx, workFrame{Op: "message_workstream", Workstream: workstream, Text: text, ClientID: t.key(t.step())})
}

// Steer hands a directive to a workstream: one of the chat.Steer… commands.
func (t *WorkTurn) Steer(ctx context.Context, workstream, command, text string) (chat.WorkstreamStatus, error) {
	return t.one(ctx, workFrame{Op: "steer_workstream", Workstream: workstream, Command: command, Text: text, ClientID: t.key(t.step())})
}

// Terminate tells a workstream to end.
func (t *WorkTurn) Terminate(ctx context.Context, workstream, reason string) (chat.WorkstreamStatus, error) {
	return t.one(ctx, workFrame{Op: "terminate_workstream", Workstream: workstream, Reason: reason})
}

// Progress tells the line that launched this one how far it has come. On the
// main line nothing happens.
func (t *WorkTurn) Progress(ctx context.Context, p chat.WorkstreamProgress) error {
	step := t.step()
	if err := t.gate(ctx); err != nil {
		return err
	}
	_, err := t.verb(ctx, workFrame{Op: "workstream_progress", Progress: &p, ClientID: t.key(step)})
	return err
}

// Workstreams tells how workstreams are, named by their ids or launch ids; with
// none named, all that the line of the turn launched.
func (t *WorkTurn) Workstreams(ctx context.Context, names ...string) ([]chat.WorkstreamStatus, error) {
	all, err := t.verb(ctx, workFrame{Op: "workstream_status"})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(w chat.WorkstreamStatus) bool { return w.Parent != t.Workstream }), nil
	}
	named := make([]chat.WorkstreamStatus, len(names))
	for i, name := range names {
		at := slices.IndexFunc(all, func(w chat.WorkstreamStatus) bool { return w.ID == name || w.LaunchID == name })
		if at < 0 {
			return nil, chat.Errorf(chat.NotFound, "this session has no workstream %q", name)
		}
		named[i] = all[at]
	}
	return named, nil
}

// Await waits until all named workstreams have ended, or rest when they are
// interactive, and returns how they are.
func (t *WorkTurn) Await(ctx context.Context, names ...string) ([]chat.WorkstreamStatus, error) {
	for {
		t.mu.Lock()
		news := t.news
		t.mu.Unlock()
		all, err := t.Workstreams(ctx, names...)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(w chat.WorkstreamStatus) bool { return !w.Over() }) {
			return all, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// News takes what came in about workstreams since it was last called: directives
// and follow-ups to the turn's own line, and what became of its children. User
// messages are Heard.
func (t *WorkTurn) News() []chat.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	told := t.told
	t.told = nil
	return told
}

// gate waits while the workstream of the turn is paused.
func (t *WorkTurn) gate(ctx context.Context) error {
	for {
		t.mu.Lock()
		paused, news := t.paused, t.news
		t.mu.Unlock()
		if !paused {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *WorkTurn) verb(ctx context.Context, f workFrame) ([]chat.WorkstreamStatus, error) {
	f.TurnID = t.ID
	r, err := t.w.call(ctx, t, func() workFrame { return f })
	return r.workstreams, err
}

func (t *WorkTurn) one(ctx context.Context, f workFrame) (chat.WorkstreamStatus, error) {
	if err := t.gate(ctx); err != nil {
		return chat.WorkstreamStatus{}, err
	}
	all, err := t.verb(ctx, f)
	if err != nil {
		return chat.WorkstreamStatus{}, err
	}
	if len(all) != 1 {
		return chat.WorkstreamStatus{}, chat.Errorf(chat.Internal, "the server did not say how the workstream is")
	}
	return all[0], nil
}
