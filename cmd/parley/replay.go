package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/agents/replay"
	"github.com/parley-hq/parley/internal/terminal"
)

// ReplayCmd serves a recorded session as an agent that needs no model.
type ReplayCmd struct {
	serverFlags `embed:""`
	Session     string        `arg:"" help:"The recorded session, or a file that export wrote; - is standard input."`
	As          string        `required:"" help:"Name of the agent that answers with the recording." placeholder:"AGENT"`
	Speed       float64       `help:"1 is the recorded speed, 10 is ten times as fast, 0 has no pauses." default:"1"`
	MaxPause    time.Duration `help:"Longer pauses are shortened to this." default:"30s"`
	From        string        `help:"Server that has the session, if it is another one." placeholder:"URL"`
	Slots       int           `help:"Turns answered at once." default:"16"`
}

// Run answers turns until ctx ends.
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
	rec, err := replay.Read(log)
	if err != nil {
		return err
	}
	if rec.Turns() == 0 {
		return fmt.Errorf("%s has no turn that an agent answered; there is nothing to replay", c.Session)
	}
	a := replay.New(rec, replay.Options{Client: cl, Source: source, Speed: c.Speed, MaxPause: c.MaxPause})
	fmt.Fprintf(std.err, "replaying %s of %s; talk to it with: parley chat --agent %s\n", terminal.Count(rec.Turns(), "turn", "turns"), rec.Session, c.As)
	err = cl.Work(ctx, c.As, client.WorkOptions{Slots: c.Slots}, a)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// log reads the recording. source is the server that has the files of the session; nil without one.
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
		if source, err = (serverFlags{URL: c.From, Token: c.Token}).connect(3); err != nil {
			return nil, nil, err
		}
	}
	var b bytes.Buffer
	if _, err = source.Export(ctx, chat.SessionID(c.Session), &b, func(int) {}); err != nil && source != cl {
		source.Close()
	}
	return b.Bytes(), source, err
}
