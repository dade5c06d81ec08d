package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentconfig"
	"github.com/parley-hq/parley/internal/agentfleet"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/config"
)

// openFleet creates the fleet of configured agents.
func (p *parley) openFleet() {
	env := &agentconfig.Env{Files: p.readFile, Grants: grants{p}, Version: version, Logger: p.log}
	p.fleet = agentfleet.New(agentfleet.Options{
		Registry: p.agents, New: func(a *config.Agent) (agent.Agent, error) { return agentconfig.New(a, env) }, Load: p.loadConfig,
		Default: p.cfg.Agent, SetDefault: p.sessions.SetDefaultAgent,
		Reloaded: func(agents string) {
			p.auth.Report(auth.ConfigurationReloaded, chat.Trusted, map[string]any{"agents": agents})
			p.log.Info("the configuration was read again", "agents", agents, "default", p.sessions.DefaultAgent())
		},
		Logger: p.log,
	})
}

// startFleet starts the agents of the configuration file, or the demo agent when there is no file.
func (p *parley) startFleet() error {
	path := p.cfg.Config
	if path == "" {
		if _, err := os.Stat(config.Name); errors.Is(err, fs.ErrNotExist) {
			return p.fleet.Start(nil)
		}
		path = config.Name
	}
	file, err := p.loadConfig(path)
	if err != nil {
		return err
	}
	return p.fleet.Start(file)
}

// loadConfig reads a configuration file. A file that is not named with --config is used only when it belongs to the
// user, because it names programs to run.
func (p *parley) loadConfig(path string) (*config.File, error) {
	if p.cfg.Config == "" {
		if err := config.Own(path); err != nil {
			return nil, fmt.Errorf("%s in this folder is not used, because it may not be yours (%w), and a configuration names programs to run. "+
				"Read it, then use it with `parley serve --config %s`; or start in another folder", path, err, path)
		}
	}
	return config.Load(path)
}

// watchSignals reads the token file again at every SIGHUP until ctx ends, and sends to reloads when the configuration file
// must be read again too. Signals that arrive during a reload are combined.
func (p *parley) watchSignals(ctx context.Context, reloads chan<- struct{}) {
	for {
		select {
		case <-p.signals:
		case <-ctx.Done():
			return
		}
		p.reloadTokens()
		if !p.fleet.Configured() {
			continue
		}
		select {
		case reloads <- struct{}{}:
		default:
		}
	}
}

// reloadTokens reads the token file again. A file with an error changes nothing.
func (p *parley) reloadTokens() {
	if p.cfg.TokenFile == "" {
		if !p.fleet.Configured() {
			p.log.Info("SIGHUP has no effect: there is neither a token file nor a configuration file to read again")
		}
		return
	}
	tokens, err := p.cfg.tokens()
	if err == nil {
		err = p.auth.SetTokens(tokens)
	}
	if err != nil {
		p.log.Error("the token file was not loaded; the previous tokens stay valid", "file", p.cfg.TokenFile, "err", err)
	}
}
