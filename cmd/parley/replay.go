package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/terminal"
)

// ReplayCmd serves a recorded session as an agent that needs no model.
type ReplayCmd struct {
	remote   `embed:""`
	Session  string        `arg:"" help:"The recorded session, or a file that export wrote; - is standard input."`
	As       string        `required:"" help:"Name of the agent that it becomes." placeholder:"AGENT"`
	Speed    float64       `help:"1 is its own pace, 10 ten times as fast, 0 without pauses." default:"1"`
	MaxPause time.Duration `help:"Longest pause that is kept." default:"30s"`
	From     string        `help:"Server that has the session, when it is another one." placeholder:"URL"`
	Slots    int           `help:"Turns answered at once." default:"16"`
}

// Run answers turns until it is ended.
func (c *ReplayCmd) Run(ctx context.Context, std *stdio) error {
	if c.Speed < 0 || c.MaxPause < 0 {
		return usageError("--speed and --max-pause cannot be negative")
	}
	cl, err := c.connect(3)
	if err != nil {
		return err
	}
	defer cl.Close()
	log, source, err := c.log(ctx, std, cl)
	if err != nil {
		return err
	}
	if source != nil && source != cl {
		defer source.Close()
	}
	rec, err := readRecording(log)
	if err != nil {
		return err
	}
	if len(rec.asked()) == 0 {
		return fmt.Errorf("%s has no turn that an agent answered; there is nothing to replay", c.Session)
	}
	f := &fake{rec: rec, cl: cl, source: source, speed: c.Speed, longest: c.MaxPause}
	fmt.Fprintf(std.err, "replaying %s of %s; talk to it with: parley chat --agent %s\n", terminal.Count(len(rec.asked()), "turn", "turns"), rec.session, c.As)
	err = cl.Work(ctx, c.As, client.WorkOptions{Slots: c.Slots}, agent.Func(f.answer))
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// log reads the recording. source is the server that has the files of the
// session, nil when there is none.
func (c *ReplayCmd) log(ctx context.Context, std *stdio, cl *client.Client) (log []byte, source *client.Client, err error) {
	if c.Session == "-" {
		log, err = io.ReadAll(std.in)
		return log, nil, err
	}
	if info, err := os.Stat(c.Session); err == nil && info.Mode().IsRegular() {
		log, err = os.ReadFile(c.Session)
		return log, nil, err
	}
	source = cl
	if c.From != "" {
		if source, err = (remote{URL: c.From, Token: c.Token}).connect(3); err != nil {
			return nil, nil, err
		}
	}
	var b bytes.Buffer
	if _, err = source.Export(ctx, chat.SessionID(c.Session), &b, func(int) {}); err != nil && source != cl {
		source.Close()
	}
	return b.Bytes(), source, err
}

// fake answers turns with what was recorded.
type fake struct {
	rec     *recording
	cl      *client.Client
	source  *client.Client // has the files of the recording; may be nil
	speed   float64
	longest time.Duration
}

// answer plays the turn of the recording that fits.
func (f *fake) answer(ctx context.Context, t *agent.Turn) error {
	turn, err := f.pick(ctx, t)
	if err != nil || turn == nil {
		return err
	}
	p := &play{fake: f, t: t, turn: turn, at: turn.began, names: map[string]string{}}
	for i := range turn.events {
		if err := p.event(ctx, &turn.events[i]); err != nil {
			return err
		}
	}
	if err := p.pause(ctx, turn.ended); err != nil {
		return err
	}
	switch turn.outcome {
	case chat.Failed, chat.Interrupted:
		if turn.fault == "" {
			return errors.New("the recorded turn failed")
		}
		return errors.New(turn.fault)
	}
	return nil
}

// pick chooses a turn of the recording: for a message the one with the same
// text, else the one with the same number, beginning anew behind the last; for a
// line of work the one of that line.
func (f *fake) pick(ctx context.Context, t *agent.Turn) (*recordedTurn, error) {
	if launch, ok := t.Assignment(); ok {
		return f.rec.ofLine(recordedLine(launch.Context), t.Trigger.Type, t.Text()), nil
	}
	asked := f.rec.asked()
	if _, ok := t.Trigger.Body.(chat.UserMessage); !ok {
		return f.rec.news(&t.Trigger), nil
	}
	n := 0
	for e, err := range f.cl.Events(ctx, t.Session, client.EventQuery{Types: []string{"user.message"}}) {
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
	at := max(n-1, 0) % len(asked)
	for i := range asked {
		if turn := asked[(at+i)%len(asked)]; turn.text == t.Text() {
			return turn, nil
		}
	}
	return asked[at], nil
}
