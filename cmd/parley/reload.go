package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/config"
)

// configure makes the agents of the configuration, and settles who answers
// sessions that name nobody.
func (p *parley) configure() error {
	path := p.cfg.Config
	if path == "" {
		if _, err := os.Stat(config.Name); errors.Is(err, fs.ErrNotExist) {
			p.agents.Add(demo.Info, demo.Agent{})
			p.sessions.SetDefaultAgent(cmp.Or(p.cfg.Agent, demo.Info.Name))
			return nil
		}
		path = config.Name
	}
	file, err := p.loadConfig(path)
	if err != nil {
		return err
	}
	if err := p.fleet.apply(file); err != nil {
		return err
	}
	p.fleet.settle()
	return nil
}

// loadConfig reads a configuration file. One that nobody named is used only when
// it is the user's own: it says which programs are run.
func (p *parley) loadConfig(path string) (*config.File, error) {
	if p.cfg.Config == "" {
		if err := config.Own(path); err != nil {
			return nil, fmt.Errorf("%s in this folder is not used, because it may not be yours (%w), and a configuration names programs to run. "+
				"Read it, then use it with `parley serve --config %s`; or start in another folder", path, err, path)
		}
	}
	return config.Load(path)
}

// hangups reads the token file again at every SIGHUP until ctx ends, and gives a
// value for each when there is a configuration to read again. Several signals at
// once are one.
func (p *parley) hangups(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	p.watchers.Go(func() {
		for {
			select {
			case <-p.signals:
			case <-ctx.Done():
				return
			}
			p.reloadTokens()
			if !p.fleet.configured() {
				continue
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	})
	return out
}

// reloadTokens reads the token file again. A file with a mistake changes nothing.
func (p *parley) reloadTokens() {
	if p.cfg.TokenFile == "" {
		if !p.fleet.configured() {
			p.log.Info("SIGHUP has no effect: there is neither a token file nor a configuration file to read again")
		}
		return
	}
	tokens, err := p.cfg.tokens()
	if err == nil {
		err = p.auth.SetTokens(tokens)
	}
	if err != nil {
		p.log.Error("the token file was not taken; the tokens stay as they were", "file", p.cfg.TokenFile, "err", err)
	}
}
