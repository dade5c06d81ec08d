package main

import (
	"context"
	"path/filepath"

	"github.com/parley-hq/parley/internal/dialect/vertesia"
	"github.com/parley-hq/parley/internal/sealed"
	"github.com/parley-hq/parley/internal/wire"
)

// speakVertesia makes the Vertesia dialect, and the key with which tokens and
// addresses are signed that its clients get.
func (p *parley) speakVertesia(conns *wire.Conns) ([]wire.Route, error) {
	// It stays, so that what was signed outlives a restart.
	file := filepath.Join(p.cfg.Data, "signing-key")
	key, made, err := sealed.Key(file, 32)
	if err != nil {
		return nil, err
	}
	if made && !p.fresh {
		p.log.Info("a new signing key was made; tokens and addresses that were signed before are refused", "file", file)
	}
	p.auth.Sign(key)
	p.vertesia = vertesia.New(vertesia.Options{
		Sessions: audited{p.sessions, p}, Files: files{p.artifacts}, Caller: p.auth.Caller, Check: p.auth.Check, Issue: p.auth.Issue, Allow: p.allow, Conns: conns, Secret: key,
		Agents: func(workspace string) (names []string) {
			for _, a := range p.agents.List(workspace, nil) {
				names = append(names, a.Name)
			}
			return names
		},
		Tools: func(ctx context.Context, name string) ([]vertesia.Tool, bool) {
			list, known := p.agents.Tools(ctx, name)
			tools := make([]vertesia.Tool, len(list))
			for i, t := range list {
				tools[i] = vertesia.Tool(t)
			}
			return tools, known
		},
		TrustedProxy: p.cfg.TrustedProxy, MaxBody: p.cfg.MaxBody, MaxArtifact: p.cfg.MaxArtifact, Retention: p.cfg.VertesiaRetention, Logger: p.log,
	})
	return p.vertesia.Routes(), nil
}

// keepRuns erases Vertesia runs that are past their time.
func (p *parley) keepRuns(ctx context.Context) { _ = p.vertesia.Run(ctx) } // it logs what fails, and goes on
