// Package agentfleet runs the agents of a configuration file: it constructs them, replaces them when the file is read
// again, and checks their health.
//
// A [Fleet] may be used by several goroutines at once.
package agentfleet

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/config"
)

// Registry has the agents of the server under their names. It closes those that are replaced or removed, when their last turn has ended.
type Registry interface {
	Add(info agent.Info, a agent.Agent)
	Remove(name string)
	Discard(a agent.Agent)
	Use(name string, f func(agent.Agent)) bool
}

// Options are what a fleet needs.
type Options struct {
	Registry   Registry
	New        func(*config.Agent) (agent.Agent, error) // constructs an agent from its settings
	Load       func(path string) (*config.File, error)  // reads a configuration file
	Default    string                                   // the default agent; "" means that of the file
	SetDefault func(name string)                        // sets the agent of sessions that name none
	Reloaded   func(agents string)                      // called after a successful reload; may be nil
	Logger     *slog.Logger
}

// Fleet is the agents of a configuration file.
type Fleet struct {
	opt Options

	mu      sync.Mutex
	sources map[string]string // the settings of each agent, as they are written in the configuration
	file    *config.File      // nil without a configuration file
}

// New returns a fleet without agents.
func New(opt Options) *Fleet { return &Fleet{opt: opt, sources: map[string]string{}} }

// Start registers the agents of a file, or only the demo agent when file is nil.
func (f *Fleet) Start(file *config.File) error {
	if file != nil {
		if err := f.apply(file); err != nil {
			return err
		}
	}
	f.setDefault()
	return nil
}

// apply replaces the agents by those of a file. When one of them cannot be constructed, nothing changes. An agent whose
// settings did not change is kept.
func (f *Fleet) apply(file *config.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	built := map[string]agent.Agent{}
	var errs []error
	for _, c := range file.Agents {
		if source, ok := f.sources[c.Name]; ok && source == c.Source() {
			continue
		}
		a, err := f.opt.New(c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		built[c.Name] = a
	}
	if err := errors.Join(errs...); err != nil {
		for _, a := range built {
			f.opt.Registry.Discard(a)
		}
		return err
	}
	for name := range f.sources {
		if !slices.ContainsFunc(file.Agents, func(a *config.Agent) bool { return a.Name == name }) {
			f.opt.Registry.Remove(name)
			delete(f.sources, name)
		}
	}
	for _, c := range file.Agents {
		if a := built[c.Name]; a != nil {
			f.opt.Registry.Add(agent.Info{Name: c.Name, Kind: c.Kind, Description: c.Description, Starters: c.Starters, Commands: c.Commands}, a)
			f.sources[c.Name] = c.Source()
		}
	}
	f.file = file
	return nil
}

// setDefault adds or removes the built-in demo agent and sets the default agent.
func (f *Fleet) setDefault() {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := f.opt.Default
	if f.file != nil {
		name = cmp.Or(name, f.file.Default())
	}
	if _, configured := f.sources[demo.Info.Name]; !configured {
		if f.file == nil || f.file.Demo || len(f.file.Agents) == 0 {
			f.opt.Registry.Add(demo.Info, demo.Agent{})
		} else {
			f.opt.Registry.Remove(demo.Info.Name)
		}
	}
	f.opt.SetDefault(cmp.Or(name, demo.Info.Name))
}

// Configured reports whether there is a configuration file.
func (f *Fleet) Configured() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file != nil
}

// reload reads the file again. A file with an error changes nothing.
func (f *Fleet) reload() error {
	f.mu.Lock()
	old := f.file
	f.mu.Unlock()
	if old == nil {
		return errors.New("the server was started without a configuration file; give one with --config")
	}
	file, err := f.opt.Load(old.Path)
	if err != nil {
		return err
	}
	return f.Start(file)
}

// Run checks the health of the agents, and reads the file again for each value of reload, until ctx ends. A reload does
// not wait for a health check.
func (f *Fleet) Run(ctx context.Context, reload <-chan struct{}) {
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.checkHealth(ctx, changed) })
	for {
		select {
		case <-reload:
		case <-ctx.Done():
			return
		}
		if err := f.reload(); err != nil {
			f.opt.Logger.Error("the configuration was not loaded; the previous one stays in use", "err", err)
			continue
		}
		if f.opt.Reloaded != nil {
			f.opt.Reloaded(f.names())
		}
		select {
		case changed <- struct{}{}:
		default: // a check is due already
		}
	}
}

// names lists the agents for logs.
func (f *Fleet) names() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(f.sources)), ", ")
}

// healthInterval is the time between two health checks.
const healthInterval = time.Minute

// checkHealth probes the agents at intervals and after each change.
func (f *Fleet) checkHealth(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for {
		f.probe(ctx)
		select {
		case <-tick.C:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// probe probes all agents at once and logs new failures.
func (f *Fleet) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	f.mu.Lock()
	names := slices.Collect(maps.Keys(f.sources))
	f.mu.Unlock()
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() { f.opt.Registry.Use(name, func(a agent.Agent) { f.probeAgent(ctx, name, a) }) })
	}
	wg.Wait()
}

// prober is an agent that can check its health, and reports the result of its last check.
type prober interface {
	Probe(ctx context.Context) error
	Health() error
}

func (f *Fleet) probeAgent(ctx context.Context, name string, a agent.Agent) {
	p, ok := a.(prober)
	if !ok {
		return
	}
	before := p.Health()
	err := p.Probe(ctx)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) && (before == nil || before.Error() != err.Error()) {
		f.opt.Logger.Warn("the agent's health check failed", "agent", name, "err", err.Error())
	}
}
