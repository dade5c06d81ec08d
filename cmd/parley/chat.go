package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/terminal"
)

// ChatCmd is a conversation in the terminal.
type ChatCmd struct {
	serverFlags `embed:""`
	Session     string `arg:"" optional:"" help:"Session to continue; without it a new one is created."`
	Agent       string `help:"Agent of the new session."`
	Title       string `help:"Title of the new session."`
}

// Run runs the conversation until the person leaves. Without a terminal, each line of standard input is a message or the
// answer to a prompt, and the replies are printed as plain text.
func (c *ChatCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.connect(2)
	if err != nil {
		return err
	}
	defer cl.Close()
	var s chat.Session
	if c.Session == "" {
		if err := knownAgent(ctx, cl, c.Agent); err != nil {
			return err
		}
		s, err = cl.Create(ctx, client.NewSession{Agent: c.Agent, Title: c.Title})
	} else {
		if c.Agent != "" || c.Title != "" {
			return usageError("--agent and --title are for new sessions")
		}
		s, err = cl.Get(ctx, chat.SessionID(c.Session))
		err = missing(err, chat.SessionID(c.Session))
	}
	if err != nil {
		return err
	}
	in, tty := terminal.File(std.in)
	out, ttyOut := terminal.File(std.out)
	if tty && ttyOut && os.Getenv("TERM") != "dumb" {
		err = terminal.Screen(ctx, cl, s, in, out, explain)
	} else {
		err = (&terminal.Lines{Client: cl, Session: s, In: std.in, Out: std.out, Err: std.err, Explain: explain}).Run(ctx)
	}
	fmt.Fprintf(std.err, "continue with: parley chat %s\n", s.ID)
	return err
}

// knownAgent refuses the name of an agent that the server does not have. The server itself accepts every name, because a
// worker may connect later; a person who talks to nobody would wait without an answer.
func knownAgent(ctx context.Context, cl *client.Client, name string) error {
	if name == "" || name == chat.NoAgent {
		return nil
	}
	agents, err := cl.Agents(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, a := range agents {
		names = append(names, terminal.OneLine(a.Name))
	}
	if slices.Contains(names, name) {
		return nil
	}
	slices.Sort(names)
	text := fmt.Sprintf("there is no agent %q; ", name)
	switch len(names) {
	case 0:
		text += "this server has none"
	case 1:
		text += "the only one is " + names[0]
	default:
		text += "the agents are " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
	}
	return errors.New(text)
}
