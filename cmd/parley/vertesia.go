package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-hq/parley/dialect/vertesia"
	"github.com/parley-hq/parley/wire"
)

// speakVertesia makes the Vertesia dialect, and the key with which tokens and
// addresses are signed that its clients get.
func (p *parley) speakVertesia(conns *wire.Conns) ([]wire.Route, error) {
	key, err := signingKey(p.cfg.Data)
	if err != nil {
		return nil, err
	}
	p.auth.Sign(key)
	p.vertesia = vertesia.New(vertesia.Options{
		Sessions: p.sessions, Files: files{p.artifacts}, Caller: p.auth.Caller, Check: p.auth.Check, Issue: p.auth.Issue, Conns: conns, Secret: key,
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

// signingKey is a key that is made once and stays, so that what was signed
// outlives a restart.
func signingKey(data string) ([]byte, error) {
	const size = 32
	file := filepath.Join(data, "signing-key")
	key, err := os.ReadFile(file)
	if err == nil && len(key) == size {
		return key, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%s is damaged: it has %d bytes instead of %d; remove it, and a new one is made", file, len(key), size)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the signing key cannot be read: %w", err)
	}
	key = make([]byte, size)
	_, _ = rand.Read(key) // never fails
	// Written whole before it has its name: a crash in between leaves no half key.
	if err := os.WriteFile(file+".new", key, 0o600); err != nil {
		return nil, fmt.Errorf("the signing key cannot be kept: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return nil, fmt.Errorf("the signing key cannot be kept: %w", err)
	}
	return key, nil
}
