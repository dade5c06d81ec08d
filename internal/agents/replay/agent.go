package replay

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// Options say how a recording is played.
type Options struct {
	Client   *client.Client // of the server whose turns are answered
	Source   *client.Client // of the server that has the files of the recording; may be nil
	Speed    float64        // 1 is the recorded speed, 0 means no pauses
	MaxPause time.Duration  // longer pauses are shortened to this
}

// Agent answers turns with those of a recording. It may answer several turns at once.
type Agent struct {
	rec *Recording
	opt Options
}

// New returns an agent for a recording with at least one turn.
func New(rec *Recording, opt Options) *Agent { return &Agent{rec: rec, opt: opt} }

// Answer plays the recorded turn that matches t.
func (a *Agent) Answer(ctx context.Context, t *agent.Turn) error {
	recorded, err := a.pick(ctx, t)
	if err != nil || recorded == nil {
		return err
	}
	p := &player{Agent: a, t: t, turn: recorded, at: recorded.started, names: map[string]string{}}
	for i := range recorded.events {
		if err := p.event(ctx, &recorded.events[i]); err != nil {
			return err
		}
	}
	if err := p.pause(ctx, recorded.ended); err != nil {
		return err
	}
	switch recorded.outcome {
	case chat.Failed, chat.Interrupted:
		if recorded.reason == "" {
			return errors.New("the recorded turn failed")
		}
		return errors.New(recorded.reason)
	}
	return nil
}

// pick chooses the recorded turn to play. For a message it is the one whose message has the same text, else the one with
// the same number, starting over after the last. For a workstream it is that of the recorded workstream.
func (a *Agent) pick(ctx context.Context, t *agent.Turn) (*turn, error) {
	if launch, ok := t.Assignment(); ok {
		return a.rec.ofWorkstream(recordedWorkstream(launch.Context), t.Trigger.Type, t.Text()), nil
	}
	answers := a.rec.answers()
	if _, ok := t.Trigger.Body.(chat.UserMessage); !ok {
		return a.rec.afterWork(&t.Trigger), nil
	}
	n := 0
	for e, err := range a.opt.Client.Events(ctx, t.Session, client.EventQuery{Types: []string{"user.message"}}) {
		if err != nil {
			return nil, err
		}
		if e.Seq > t.Trigger.Seq {
			break
		}
		if e.Workstream == "" {
			n++
		}
	}
	at := max(n-1, 0) % len(answers)
	for i := range answers {
		if turn := answers[(at+i)%len(answers)]; turn.text == t.Text() {
			return turn, nil
		}
	}
	return answers[at], nil
}
