package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-hq/parley/agent/demo"
	"github.com/parley-hq/parley/config"
)

// configure makes the agents of the configuration, and settles who answers
// sessions that name nobody.
func (p *parley) configure() error {
	path := p.cfg.Config
	if path == "" {
		if _, err := os.Stat(config.Name); errors.Is(err, fs.ErrNotExist) {
			p.agents.Add(demo.Info, demo.Agent{})
			p.defaultAgent(demo.Info.Name)
			return nil
		}
		path = config.Name
	}
	file, err := config.Load(path)
	if err != nil {
		return err
	}
	if file.Demo || len(file.Agents) == 0 {
		p.agents.Add(demo.Info, demo.Agent{})
	}
	if err := p.fleet.apply(file); err != nil {
		return err
	}
	if name := file.Default(); name != "" {
		p.defaultAgent(name)
	} else {
		p.defaultAgent(demo.Info.Name)
	}
	return nil
}

// defaultAgent names the agent of sessions that name none, unless the command
// line has.
func (p *parley) defaultAgent(name string) {
	if p.cfg.Agent == "" {
		p.cfg.Agent = name
	}
}

// hangups gives a value for every SIGHUP until ctx ends. Several at once are one.
func (p *parley) hangups(ctx context.Context) <-chan struct{} {
	signals := make(chan os.Signal, 1)
	out := make(chan struct{}, 1)
	if p.fleet.file == nil {
		return out // without a configuration the signal means what it always does
	}
	signal.Notify(signals, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	p.watchers.Go(func() {
		for {
			select {
			case <-signals:
				select {
				case out <- struct{}{}:
				default:
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return out
}
