package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/terminal"
)

// AgentsCmd lists the agents of a server.
type AgentsCmd struct {
	serverFlags `embed:""`
	JSON        bool `help:"One JSON object per line."`
}

// Run prints a table, or lines of JSON.
func (c *AgentsCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	agents, err := cl.Agents(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(table, "AGENT\tKIND\tHEALTH\tRUNNING\tDESCRIPTION")
	}
	for _, a := range agents {
		if c.JSON {
			b, err := json.Marshal(a)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.out, "%s\n", b)
			continue
		}
		health := "healthy"
		if !a.Healthy {
			if health = "unhealthy"; a.Problem != "" {
				health += ": " + terminal.Clip(terminal.OneLine(a.Problem), 120)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", terminal.Sanitize(a.Name), terminal.Sanitize(a.Kind), health, a.Running, terminal.Clip(terminal.OneLine(a.Description), 60))
	}
	return table.Flush()
}
