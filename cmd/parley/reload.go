package main

import (
	"cmp"
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
			p.sessions.SetDefaultAgent(cmp.Or(p.cfg.Agent, demo.Info.Name))
			return nil
		}
		path = config.Name
	}
	file, err := config.Load(path)
	if err != nil {
		return err
	}
	if err := p.fleet.apply(file); err != nil {
		return err
	}
	p.fleet.settle()
	return nil
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
