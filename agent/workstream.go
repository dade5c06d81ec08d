package agent

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// Assignment returns what the workstream of the turn was launched for: its task, tools, model and context. ok is false
// on the main line.
func (t *Turn) Assignment() (launch chat.WorkstreamLaunched, ok bool) {
	if t.launch == nil {
		return launch, false
	}
	return *t.launch, true
}

// Launch begins a workstream and returns at once. The workstream runs in the background, also after this turn. Its
// result begins a turn of this line, or is among the NewEvents of the running one.
func (t *Turn) Launch(ctx context.Context, l chat.Launch) (chat.WorkstreamStatus, error) {
	l.ClientID = t.key(t.step())
	if err := t.inbox.unpaused(ctx); err != nil {
		return chat.WorkstreamStatus{}, err
	}
	return t.transport.Launch(ctx, l)
}

// Message sends a follow-up to a workstream, named by its id or launch id.
func (t *Turn) Message(ctx context.Context, workstream, text string) (chat.WorkstreamStatus, error) {
	return t.direct(ctx, t.transport.MessageWorkstream, workstream, chat.Steering{Text: text})
}

// Steer sends a steering command to a workstream: one of the chat.Steer… constants.
func (t *Turn) Steer(ctx context.Context, workstream, command, text string) (chat.WorkstreamStatus, error) {
	return t.direct(ctx, t.transport.SteerWorkstream, workstream, chat.Steering{Command: command, Text: text})
}

// Terminate ends a workstream.
func (t *Turn) Terminate(ctx context.Context, workstream, reason string) (chat.WorkstreamStatus, error) {
	return t.direct(ctx, t.transport.TerminateWorkstream, workstream, chat.Steering{Text: reason})
}

func (t *Turn) direct(ctx context.Context, send func(context.Context, string, chat.Steering) (chat.WorkstreamStatus, error), workstream string, m chat.Steering) (chat.WorkstreamStatus, error) {
	m.ClientID = t.key(t.step())
	if err := t.inbox.unpaused(ctx); err != nil {
		return chat.WorkstreamStatus{}, err
	}
	return send(ctx, workstream, m)
}

// Workstreams returns the status of workstreams, named by their ids or launch ids; with none named, of all that the line
// of the turn launched.
func (t *Turn) Workstreams(ctx context.Context, names ...string) ([]chat.WorkstreamStatus, error) {
	all, err := t.transport.Workstreams(ctx)
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

// Await waits until all named workstreams have ended, or are idle if they are interactive, and returns their status. Their
// events become part of this turn and begin no other.
func (t *Turn) Await(ctx context.Context, names ...string) ([]chat.WorkstreamStatus, error) {
	return t.AwaitSome(ctx, len(names), names...)
}

// AwaitSome waits until at least n of the named workstreams have ended or are idle.
func (t *Turn) AwaitSome(ctx context.Context, n int, names ...string) ([]chat.WorkstreamStatus, error) {
	for {
		changed := t.inbox.nextChange() // before the status is read, so that no change is missed
		all, err := t.Workstreams(ctx, names...)
		if err != nil {
			return nil, err
		}
		over := 0
		for i := range all {
			if all[i].Over() {
				over++
			}
		}
		if over >= min(n, len(all)) {
			_, err := t.transport.TakeEvents(ctx, t.markAwaited(all)...)
			return all, err
		}
		err = t.inbox.wait(ctx, func() bool {
			select {
			case <-changed:
				return true
			default:
				return false
			}
		})
		if err != nil {
			return nil, err
		}
	}
}

func (t *Turn) markAwaited(all []chat.WorkstreamStatus) (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range all {
		t.awaited[all[i].ID] = all[i].EndedAt != 0
		ids = append(ids, all[i].ID)
	}
	return ids
}

// Progress reports to the line that launched this one how far it has come. On the main line it does nothing.
func (t *Turn) Progress(ctx context.Context, p chat.WorkstreamProgress) error {
	step := t.step()
	if t.Workstream == "" {
		return nil
	}
	if err := t.inbox.unpaused(ctx); err != nil {
		return err
	}
	return t.transport.ReportWorkstream(ctx, t.key(step), p)
}
