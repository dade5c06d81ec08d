package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/grant"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
	"github.com/parley-hq/parley/internal/natsprovider/command"
	providefiles "github.com/parley-hq/parley/internal/natsprovider/files"
	"github.com/parley-hq/parley/internal/natsprovider/index"
	"github.com/parley-hq/parley/internal/natsprovider/orchestration"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/sleep"
)

// logPrograms logs the programs of the command line that will be run.
func (p *parley) logPrograms() {
	for flag, program := range map[string]string{"--preview-command": p.cfg.PreviewCmd, "--image-command": p.cfg.ImageCmd} {
		if program != "" && p.cfg.NATS != "off" {
			p.log.Info("the command line names a program that will be run", "program", program, "for", flag)
		}
	}
}

// openGrants creates the service of grants and shares, and the one that starts child sessions.
func (p *parley) openGrants() {
	p.grants = grant.New(grant.Options{Sessions: p.sessions, Files: p.artifacts, Caller: p.auth.Caller, MaxBody: p.cfg.MaxBody, Logger: p.log})
	p.children = orchestration.New(orchestration.Options{Sessions: p.sessions, Allow: p.maySpawn, Logger: p.log})
	p.sessions.Observe(session.Observer{Committed: p.grants.Committed})
	p.sessions.Observe(session.Observer{Committed: p.children.Committed})
	p.sessions.Observe(session.Observer{Committed: p.reportGrants})
}

// runGrants runs both services until ctx ends.
func (p *parley) runGrants(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.grants.Run(ctx) }) // both log errors and continue
	wg.Go(func() { _ = p.children.Run(ctx) })
	wg.Wait()
}

// maySpawn uses a grant of the parent session that allows it to start an agent.
func (p *parley) maySpawn(ctx context.Context, workspace string, parent chat.SessionID, agent, call string) (string, error) {
	details, err := json.Marshal(map[string]any{"agent": agent})
	if err != nil {
		return "", err
	}
	c := chat.Trusted
	c.Workspace = workspace
	g, err := p.grants.UseGrant(ctx, c, workspace, grant.Ask{Type: grant.Spawn, Details: details, Session: parent, Call: "spawn:" + call})
	return g.ID, err
}

// runX1 runs the x1 dialect and the configured providers until ctx ends.
func (p *parley) runX1(ctx context.Context, conn *nats.Conn) error {
	for p.node != nil && !p.node.CaughtUp() { // see mayServe
		if sleep.For(ctx, time.Second/20) != nil {
			return nil
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, one := range p.providers() {
		one.Who, one.Allow, one.Logger = p.x1.Sender, p.x1.Allowed, p.log
		wg.Go(func() {
			for one.Serve(ctx, conn) != nil && ctx.Err() == nil { // NATS is not reachable
				_ = sleep.For(ctx, time.Second) // the loop checks ctx
			}
		})
	}
	return p.x1.Run(ctx, conn)
}

// providers lists the providers that the server offers to x1 agents.
func (p *parley) providers() []natsprovider.Provider {
	list := []natsprovider.Provider{p.children.Provider()}
	if slices.Contains(p.cfg.Provider, "files") {
		list = append(list, providefiles.New(agentFiles{files{p.artifacts}, p.sessions}))
	}
	if slices.Contains(p.cfg.Provider, "vector") {
		list = append(list, index.Vector(p.sessions))
	}
	if slices.Contains(p.cfg.Provider, "graph") {
		list = append(list, index.Graph(p.sessions))
	}
	if p.cfg.PreviewCmd != "" {
		list = append(list, command.Preview(strings.Fields(p.cfg.PreviewCmd)))
	}
	if p.cfg.ImageCmd != "" {
		list = append(list, command.Image(strings.Fields(p.cfg.ImageCmd)))
	}
	return list
}
