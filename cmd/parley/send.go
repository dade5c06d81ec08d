package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/terminal"
)

// SendCmd sends one message.
type SendCmd struct {
	serverFlags `embed:""`
	Session     string   `arg:"" help:"The session; new creates one."`
	Text        []string `arg:"" help:"Text of the message; - reads standard input."`
	Wait        bool     `short:"w" help:"Wait for the answer and print it."`
	Agent       string   `help:"Agent of a new session."`
	ClientID    string   `help:"Idempotency key: a message with the same key is stored once." placeholder:"KEY"`
}

// Run prints the answer when --wait is set, else the session and the sequence of the message.
func (c *SendCmd) Run(ctx context.Context, std *stdio) error {
	text := strings.Join(c.Text, " ")
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(std.in, chat.MaxEvent+1))
		if err != nil {
			return err
		}
		text = strings.TrimRight(string(b), "\r\n")
	}
	if text == "" {
		return usageError("the message is empty")
	}
	cl, err := c.connect(5)
	if err != nil {
		return err
	}
	defer cl.Close()
	id := chat.SessionID(c.Session)
	if id == "new" {
		if c.Wait {
			if err := knownAgent(ctx, cl, c.Agent); err != nil {
				return err
			}
		}
		s, err := cl.Create(ctx, client.NewSession{Agent: c.Agent})
		if err != nil {
			return err
		}
		id = s.ID
		if c.Wait {
			fmt.Fprintf(std.err, "session %s\n", id)
		}
	} else if c.Agent != "" {
		return usageError("--agent is for new sessions")
	}
	if c.Wait {
		s, err := cl.Get(ctx, id)
		if err != nil {
			return missing(err, id)
		}
		if s.Agent == chat.NoAgent {
			return fmt.Errorf("session %s has no agent that could answer; leave --wait out", id)
		}
	}
	e, err := cl.Send(ctx, id, chat.UserMessage{Text: text}, c.ClientID)
	if err != nil {
		return missing(err, id)
	}
	if !c.Wait {
		fmt.Fprintf(std.out, "%s %d\n", id, e.Seq)
		return nil
	}
	r := &terminal.Reply{Out: std.out, Asked: func(_ context.Context, p chat.Prompt) error {
		fmt.Fprintf(std.err, "the agent asks: %s (answer with: parley chat %s)\n", terminal.OneLine(terminal.PromptTitle(&p)), id)
		return nil
	}, Note: func(text string) { fmt.Fprintln(std.err, text) }}
	return r.Wait(ctx, cl, e)
}

// missing says what to do when the session does not exist.
func missing(err error, id chat.SessionID) error {
	if chat.CodeOf(err) == chat.NotFound {
		return errors.New("there is no session " + string(id) + "; see parley sessions, or begin one with: parley send new TEXT")
	}
	return err
}
