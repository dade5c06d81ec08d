package agent

import (
	"context"
	"io"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Append puts any body into the log as the next step.
func (t *Turn) Append(ctx context.Context, body chat.Body) (chat.Event, error) {
	return t.append(ctx, body, t.key(t.step()))
}

// Say says a whole text at once.
func (t *Turn) Say(ctx context.Context, text string) error {
	return t.note(ctx, t.step(), chat.AgentText{Text: text, Final: true})
}

// Status tells what the agent is doing.
func (t *Turn) Status(ctx context.Context, message, phase string) error {
	return t.note(ctx, t.step(), chat.AgentStatus{Message: message, Phase: phase})
}

// Plan shows the whole plan anew.
func (t *Turn) Plan(ctx context.Context, plan chat.AgentPlan) error {
	return t.note(ctx, t.step(), plan)
}

// Usage reports tokens used since the last report.
func (t *Turn) Usage(ctx context.Context, u chat.AgentUsage) error {
	return t.note(ctx, t.step(), u)
}

// Artifact publishes something the agent made.
func (t *Turn) Artifact(ctx context.Context, a chat.AgentArtifact) error {
	return t.note(ctx, t.step(), a)
}

// File keeps a file that the agent made and publishes it as an artifact. On a
// workstream the path is in the workstream's own folder.
func (t *Turn) File(ctx context.Context, a chat.AgentArtifact, body io.Reader) error {
	step := t.step()
	if _, ok := t.earlier(t.key(step)); ok {
		return nil
	}
	if t.store == nil {
		return chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	if !strings.HasPrefix(a.Path, chat.WorkFolder(t.Workstream)) {
		a.Path = chat.WorkFolder(t.Workstream) + a.Path
	}
	return t.store(ctx, t.session, a.Path, a.MediaType, body, func(size int64) error {
		a.Size = size
		return t.note(ctx, step, a)
	})
}

// Steered takes the messages that arrived during the turn under the policy
// steer. An agent calls it between its steps. After a crash it gives at the same
// steps what it gave before.
func (t *Turn) Steered(ctx context.Context) ([]chat.UserMessage, error) {
	seqs, replayed := t.steeredBefore()
	if !replayed {
		var err error
		if seqs, err = t.sessions.TakeSteered(ctx, t.Ref()); err != nil {
			return nil, err
		}
	}
	var msgs []chat.UserMessage
	for _, seq := range seqs {
		e, err := t.event(ctx, seq)
		if err != nil {
			return nil, err
		}
		if m, ok := e.Body.(chat.UserMessage); ok {
			msgs = append(msgs, m)
		}
	}
	return msgs, nil
}

// steeredBefore returns what an earlier attempt took in between the steps where
// this one is; ok is false when none came as far.
func (t *Turn) steeredBefore() (seqs []chat.Seq, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.past {
		e := &t.past[i]
		if t.said[e.ClientID].Seq == e.Seq && t.stepOf(e.ClientID) > t.steps {
			return seqs, true // the next step, which is still to come
		}
		if b, ok := e.Body.(chat.TurnInput); ok && e.Seq > t.heard {
			for _, seq := range b.Sequences {
				if child := t.about[seq]; child == "" || !t.awaited[child] {
					seqs = append(seqs, seq)
				}
			}
			t.heard = e.Seq
		}
	}
	return seqs, len(seqs) > 0
}
