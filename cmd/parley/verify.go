package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/terminal"
)

// VerifyCmd checks a store for damage.
type VerifyCmd struct {
	serverFlags `embed:""`
	Data        string `help:"Data folder of a stopped server, read without changing it. Without it, the running server checks its store." placeholder:"DIR"`
	Accept      bool   `help:"Accept the loss of what is missing in the store of --data, so that a server starts with it again. Keep a copy of the folder first."`
}

// Run prints one line per problem, then a summary.
func (c *VerifyCmd) Run(ctx context.Context, std *stdio) error {
	if c.Accept && c.Data == "" {
		return errors.New("--accept needs --data: it changes the data folder of a stopped server")
	}
	p := newProgress(std.err)
	defer p.end()
	check := c.running
	if c.Accept {
		if err := journal.Accept(storeDir(c.Data), journal.Options{}); err != nil {
			return err
		}
		fmt.Fprintf(std.err, "the store in %s is accepted as it is; what was missing is lost\n", c.Data)
	}
	if c.Data != "" {
		check = c.stopped
	}
	sessions, events, problems, err := check(ctx, std, p)
	p.end()
	if err != nil {
		return err
	}
	for _, line := range problems {
		fmt.Fprintln(std.out, terminal.Sanitize(line))
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s in %s; restore the last good backup, or export the undamaged sessions", terminal.Count(len(problems), "problem", "problems"), terminal.Count(sessions, "session", "sessions"))
	}
	fmt.Fprintf(std.out, "%s with %s, all whole\n", terminal.Count(sessions, "session", "sessions"), terminal.Count(events, "event", "events"))
	return nil
}

func (c *VerifyCmd) running(ctx context.Context, _ *stdio, p *progress) (sessions, events uint64, problems []string, err error) {
	cl, err := c.client()
	if err != nil {
		return 0, 0, nil, err
	}
	defer cl.Close()
	var last client.Check
	for check, err := range cl.Verify(ctx) {
		if err != nil {
			return 0, 0, nil, err
		}
		last = check
		p.printf("checked %s, %s", terminal.Count(check.Sessions, "session", "sessions"), terminal.Count(check.Events, "event", "events"))
	}
	for _, raw := range last.Problems {
		problems = append(problems, json.Text(raw))
	}
	return last.Sessions, last.Events, problems, nil
}

func (c *VerifyCmd) stopped(ctx context.Context, std *stdio, p *progress) (sessions, events uint64, problems []string, err error) {
	dir := storeDir(c.Data)
	if _, err := os.Stat(dir); err != nil {
		return 0, 0, nil, fmt.Errorf("%s is not the data folder of a server: there is no store in it", c.Data)
	}
	files := artifact.Inspect(artifactDir(c.Data))
	j, err := journal.OpenReadOnly(dir, journal.Options{})
	if err != nil {
		// The files can be checked without the store.
		report, ferr := files.Verify(ctx)
		if ferr != nil {
			return 0, 0, nil, errors.Join(err, ferr)
		}
		for _, d := range report.Problems {
			fmt.Fprintln(std.out, terminal.Sanitize(artifactProblem("with the hash "+d.Session, d)))
		}
		return 0, 0, nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	problems, report, err := findDamage(ctx, j, files, c.Data, func(v journal.VerifyProgress) {
		p.printf("checked %s, %s", terminal.Count(v.Sessions, "session", "sessions"), terminal.Count(v.Events, "event", "events"))
	})
	return report.Sessions, report.Events, problems, err
}
