package agent

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// place finds out about the line that the turn is on.
func (t *Turn) place(ctx context.Context) error {
	if t.Workstream == "" {
		return nil
	}
	st, err := t.State(ctx)
	if err != nil {
		return err
	}
	if w := st.Workstream(t.Workstream); w != nil {
		t.launch = &w.WorkstreamLaunched
		if w.Paused {
			t.box.pause()
		}
	}
	return nil
}

// Assignment returns what the line of the turn was launched for: its task, tools,
// model and context. ok is false on the main line.
func (t *Turn) Assignment() (launch chat.WorkstreamLaunched, ok bool) {
	if t.launch == nil {
		return launch, false
	}
	return *t.launch, true
}

// Launch begins a workstream and returns at once; it runs in the background,
// also when this turn has ended. Its result begins a turn of this line, or is
// among the News of the one that runs.
func (t *Turn) Launch(ctx context.Context, l chat.Launch) (chat.WorkstreamStatus, error) {
	ref := t.Ref()
	l.Parent, l.Turn, l.Attempt, l.ClientID = t.Workstream, ref.Turn, ref.Attempt, t.key(t.step())
	if err := t.box.gate(ctx); err != nil {
		return chat.WorkstreamStatus{}, err
	}
	return t.sessions.Launch(ctx, t.caller, ref.Session, l)
}

// Message hands a follow-up to a workstream, named by its id or launch id.
func (t *Turn) Message(ctx context.Context, workstream, text string) (chat.WorkstreamStatus, error) {
	return t.sessions.MessageWorkstream(ctx, t.caller, t.session, workstream, t.word("", text))
}

// Steer hands a directive to a workstream: one of the chat.Steer… commands.
func (t *Turn) Steer(ctx context.Context, workstream, command, text string) (chat.WorkstreamStatus, error) {
	return t.sessions.SteerWorkstream(ctx, t.caller, t.session, workstream, t.word(command, text))
}

// Terminate tells a workstream to end.
func (t *Turn) Terminate(ctx context.Context, workstream, reason string) (chat.WorkstreamStatus, error) {
	return t.sessions.TerminateWorkstream(ctx, t.caller, t.session, workstream, t.word("", reason))
}

func (t *Turn) word(command, text string) chat.Steering {
	ref := t.Ref()
	return chat.Steering{Command: command, Text: text, ClientID: t.key(t.step()), Turn: ref.Turn, Attempt: ref.Attempt}
}

// Workstreams tells how workstreams are, named by their ids or launch ids; with
// none named, all that the line of the turn launched.
func (t *Turn) Workstreams(ctx context.Context, names ...string) ([]chat.WorkstreamStatus, error) {
	all, err := t.sessions.Workstreams(ctx, t.caller, t.session)
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
// interactive, and returns how they are. What they had to tell is part of the
// turn then and begins no other.
func (t *Turn) Await(ctx context.Context, names ...string) ([]chat.WorkstreamStatus, error) {
	return t.AwaitSome(ctx, len(names), names...)
}

// AwaitSome waits until at least n of the named workstreams have ended or rest.
func (t *Turn) AwaitSome(ctx context.Context, n int, names ...string) ([]chat.WorkstreamStatus, error) {
	for {
		// What arrives after this look is noticed.
		news := t.box.next()
		all, err := t.Workstreams(ctx, names...)
		if err != nil {
			return nil, err
		}
		over := 0
		ids := make([]string, len(all))
		for i := range all {
			if ids[i] = all[i].ID; all[i].Over() {
				over++
			}
		}
		if over >= min(n, len(all)) {
			t.mu.Lock()
			if t.awaited == nil {
				t.awaited = map[string]bool{}
			}
			for _, id := range ids {
				t.awaited[id] = true
			}
			t.mu.Unlock()
			_, err := t.sessions.TakeNewsOf(ctx, t.Ref(), ids)
			return all, err
		}
		if err := t.box.after(ctx, news); err != nil {
			return nil, err
		}
	}
}

// Progress tells the line that launched this one how far it has come. On the
// main line nothing happens.
func (t *Turn) Progress(ctx context.Context, p chat.WorkstreamProgress) error {
	step := t.step()
	if t.Workstream == "" {
		return nil
	}
	if err := t.box.gate(ctx); err != nil {
		return err
	}
	return t.sessions.ReportWorkstream(ctx, t.Ref(), t.key(step), p)
}

// Batch tells how far a batch of work that is no single call has come.
func (t *Turn) Batch(ctx context.Context, p chat.AgentToolProgress) error {
	return t.note(ctx, t.step(), p)
}

// News takes all that arrived during the turn: messages of people under the
// policy steer, directives and follow-ups to its workstream, and what became of
// its children. An agent calls it between its steps, and uses either this or
// Steered. After a crash it gives at the same steps what it gave before.
func (t *Turn) News(ctx context.Context) ([]chat.Event, error) {
	seqs, replayed := t.steeredBefore()
	if !replayed {
		var err error
		if seqs, err = t.sessions.TakeNews(ctx, t.Ref()); err != nil {
			return nil, err
		}
	}
	var news []chat.Event
	for _, seq := range seqs {
		e, err := t.event(ctx, seq)
		if err != nil {
			return nil, err
		}
		news = append(news, e)
	}
	return news, nil
}
