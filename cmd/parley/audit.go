package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/terminal"
)

// AuditCmd shows the audit log.
type AuditCmd struct {
	serverFlags `embed:""`
	Event       string `help:"Only this event, such as sign_in_refused, session_erased or members_changed."`
	Session     string `help:"Only entries about this session."`
	Limit       int    `short:"n" help:"How many of the newest entries to show." default:"50"`
	Follow      bool   `short:"f" help:"Wait for new entries and print them."`
	JSON        bool   `help:"One JSON object per line."`
}

// followEvery is the time between two requests for new entries.
const followEvery = 2 * time.Second

// Run prints entries, oldest first.
func (c *AuditCmd) Run(ctx context.Context, std *stdio) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usageError("--limit is 1 to 1000")
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	q := chat.AuditQuery{Event: c.Event, Session: chat.SessionID(c.Session), Limit: c.Limit, Desc: true}
	page, err := cl.Audit(ctx, q)
	if err != nil {
		return err
	}
	last := ""
	if len(page.Entries) > 0 {
		last = page.Entries[0].ID
	}
	slices.Reverse(page.Entries)
	if err := c.print(std, page.Entries, true); err != nil || !c.Follow {
		return err
	}
	return c.follow(ctx, std, cl, q, last)
}

func (c *AuditCmd) follow(ctx context.Context, std *stdio, cl *client.Client, q chat.AuditQuery, last string) error {
	q.Desc, q.Limit = false, 1000
	for {
		q.After = last
		page, err := cl.Audit(ctx, q)
		if err != nil {
			return err
		}
		if err := c.print(std, page.Entries, false); err != nil {
			return err
		}
		if page.Last != "" {
			last = page.Last
		}
		if page.More {
			continue
		}
		if err := sleep.For(ctx, followEvery); err != nil {
			return err
		}
	}
}

func (c *AuditCmd) print(std *stdio, entries []chat.AuditEntry, head bool) error {
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	if head && !c.JSON {
		fmt.Fprintln(table, "TIME\tEVENT\tOUTCOME\tACTOR\tWORKSPACE\tSESSION\tADDRESS\tCOUNT\tDETAILS")
	}
	for _, e := range entries {
		if c.JSON {
			b, err := json.Marshal(e)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.out, "%s\n", b)
			continue
		}
		actor, details := "", ""
		if e.Actor != nil {
			actor = e.Actor.Key()
		}
		if len(e.Details) > 0 {
			b, err := json.Marshal(e.Details)
			if err != nil {
				return err
			}
			details = string(b)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.At.Time().UTC().Format(time.RFC3339), terminal.Sanitize(e.Event), terminal.Sanitize(e.Outcome), terminal.Sanitize(actor),
			terminal.Sanitize(e.Workspace), terminal.Sanitize(string(e.Session)), terminal.Sanitize(e.Address), max(e.Count, 1), terminal.Clip(terminal.OneLine(details), 120))
	}
	return table.Flush()
}
