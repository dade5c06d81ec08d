package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/terminal"
)

// SessionsCmd lists sessions, the most recently active first.
type SessionsCmd struct {
	serverFlags `embed:""`
	Status      string `help:"Only sessions in this state: idle, running, waiting, completed, failed." enum:"idle,running,waiting,completed,failed," default:""`
	Agent       string `help:"Only sessions of this agent."`
	Query       string `short:"q" help:"Only sessions with these words in title, summary or id."`
	Limit       int    `short:"n" help:"Most sessions to list; 0 lists all." default:"50"`
	JSON        bool   `help:"One JSON object per line."`
}

// Run prints a table, or lines of JSON.
func (c *SessionsCmd) Run(ctx context.Context, std *stdio) error {
	if c.Limit < 0 {
		return usageError("--limit cannot be negative")
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	q := client.SessionQuery{Agent: c.Agent, Status: chat.Status(c.Status), Query: c.Query, Limit: 100}
	if c.Limit > 0 {
		q.Limit = min(q.Limit, c.Limit)
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	n := 0
	for s, err := range cl.Sessions(ctx, q) {
		if err != nil {
			return err
		}
		if n == 0 && !c.JSON {
			fmt.Fprintln(table, "SESSION\tSTATUS\tAGENT\tEVENTS\tACTIVE\tTITLE")
		}
		n++
		if c.JSON {
			b, err := json.Marshal(s)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.out, "%s\n", b)
		} else {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, s.Status, terminal.Sanitize(s.Agent), s.Last, ago(time.Since(s.UpdatedAt.Time())), terminal.Clip(terminal.OneLine(cmp.Or(s.Title, s.Heading)), 40))
		}
		if n == c.Limit {
			break
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	switch filtered := c.Status != "" || c.Agent != "" || c.Query != ""; {
	case n > 0 || c.JSON:
	case filtered:
		fmt.Fprintln(std.err, "no such sessions; see all with: parley sessions")
	default:
		fmt.Fprintln(std.err, "no sessions; begin one with: parley chat")
	}
	return nil
}

// ago formats the time since an event.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
