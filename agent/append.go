package agent

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// append stores one body as a step, once over all attempts.
func (t *Turn) append(ctx context.Context, step string, body chat.Body) (chat.Event, error) {
	if e, ok := t.earlier(step); ok {
		if e.Type != body.Type() {
			return chat.Event{}, chat.Errorf(chat.Conflict, "the agent does not repeat its steps: step %s is %s now and was %s in an earlier attempt", step, body.Type(), e.Type)
		}
		return e, nil
	}
	events, err := t.store(ctx, chat.NewDraft(body).As(t.key(step)))
	if err != nil {
		return chat.Event{}, err
	}
	return events[0], nil
}

// store appends drafts when the workstream of the turn is not paused.
func (t *Turn) store(ctx context.Context, drafts ...chat.Draft) ([]chat.Event, error) {
	if err := t.inbox.unpaused(ctx); err != nil {
		return nil, err
	}
	return t.transport.Append(ctx, drafts)
}

func (t *Turn) note(ctx context.Context, step string, body chat.Body) error {
	_, err := t.append(ctx, step, body)
	return err
}

// Append stores any body as the next step.
func (t *Turn) Append(ctx context.Context, body chat.Body) (chat.Event, error) {
	return t.append(ctx, t.step(), body)
}

// AppendAll stores several bodies as the next step, all or none. A step that an earlier attempt completed returns its events.
func (t *Turn) AppendAll(ctx context.Context, bodies ...chat.Body) ([]chat.Event, error) {
	step := t.step()
	drafts := make([]chat.Draft, len(bodies))
	var before []chat.Event
	for i, b := range bodies {
		name := step + "-" + strconv.Itoa(i)
		drafts[i] = chat.NewDraft(b).As(t.key(name))
		if e, ok := t.earlier(name); ok {
			before = append(before, e)
		}
	}
	if len(before) > 0 { // they were stored together, so all are there
		return before, nil
	}
	return t.store(ctx, drafts...)
}

// Say stores a whole text as the turn's answer.
func (t *Turn) Say(ctx context.Context, text string) error {
	return t.note(ctx, t.step(), chat.AgentText{Text: text, Final: true})
}

// Status reports what the agent is doing.
func (t *Turn) Status(ctx context.Context, message, phase string) error {
	return t.note(ctx, t.step(), chat.AgentStatus{Message: message, Phase: phase})
}

// Plan replaces the plan that is shown.
func (t *Turn) Plan(ctx context.Context, plan chat.AgentPlan) error {
	return t.note(ctx, t.step(), plan)
}

// Usage reports tokens used since the last report.
func (t *Turn) Usage(ctx context.Context, u chat.AgentUsage) error {
	return t.note(ctx, t.step(), u)
}

// Batch reports the progress of a batch of work that is not a single tool call.
func (t *Turn) Batch(ctx context.Context, p chat.AgentToolProgress) error {
	return t.note(ctx, t.step(), p)
}

// Artifact publishes something the agent made. A worker uploads large files first; see File.
func (t *Turn) Artifact(ctx context.Context, a chat.AgentArtifact) error {
	return t.note(ctx, t.step(), a)
}

// File stores a file that the agent made and publishes it as an artifact. On a workstream the path is in the
// workstream's own folder.
func (t *Turn) File(ctx context.Context, a chat.AgentArtifact, body io.Reader) error {
	step := t.step()
	if _, ok := t.earlier(step); ok {
		return nil
	}
	if !strings.HasPrefix(a.Path, chat.WorkFolder(t.Workstream)) {
		a.Path = chat.WorkFolder(t.Workstream) + a.Path
	}
	return t.transport.StoreFile(ctx, a.Path, a.MediaType, body, func(size int64) error {
		a.Size = size
		return t.note(ctx, step, a)
	})
}
