package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/config"
)

// kind makes agents of one kind from the configuration. What it makes may also
// have Close, Health and Probe; see closer, healthy and prober.
type kind func(p *parley, a *config.Agent) (agent.Agent, error)

// kinds are the kinds of agents that a configuration can name.
var kinds = map[string]kind{
	"demo":        demoAgent,
	"model":       modelAgent,
	"openai-chat": remoteAgent,
	"ndjson":      remoteAgent,
	"nemo":        remoteAgent,
	"ag-ui":       remoteAgent,
}

type (
	// closer is an agent that holds something. Close is called when its last turn
	// has ended.
	closer interface{ Close() }
	// healthy is an agent that knows how it is.
	healthy interface{ Health() error }
	// equipped is an agent that knows its tools.
	equipped interface {
		Tools(ctx context.Context) (tools []agent.ToolInfo, known bool)
	}
	// served is an agent that uses MCP servers.
	served interface {
		Servers(ctx context.Context) []agent.ToolServer
	}
	// prober is an agent that can find out.
	prober interface {
		Probe(ctx context.Context) error
	}
)

// fleet are the agents of the configuration. A reload replaces them while their
// turns go on.
type fleet struct {
	p       *parley
	log     *slog.Logger
	closing sync.WaitGroup // agents that were replaced and wait for their last turn

	mu    sync.Mutex
	seats map[string]*seat
	file  *config.File // nil when there is none
}

// seat is a name in the registry; who sits there may change.
type seat struct {
	source string

	mu  sync.Mutex
	who *occupant // nil when the fleet has ended
}

// occupant is an agent and the turns that it answers.
type occupant struct {
	agent.Agent
	turns sync.WaitGroup
}

// Answer lets the agent that sits here now answer the turn to its end.
func (s *seat) Answer(ctx context.Context, turn *agent.Turn) error {
	s.mu.Lock()
	who := s.who
	if who == nil {
		s.mu.Unlock()
		return errors.New("the server is ending")
	}
	who.turns.Add(1)
	s.mu.Unlock()
	defer who.turns.Done()
	return who.Agent.Answer(ctx, turn)
}

// Tools lists what the agent that sits here now can use.
func (s *seat) Tools(ctx context.Context) (tools []agent.ToolInfo, known bool) {
	s.mu.Lock()
	who := s.who
	s.mu.Unlock()
	if who == nil {
		return nil, false
	}
	if a, ok := who.Agent.(equipped); ok {
		return a.Tools(ctx)
	}
	return nil, false
}

// Servers lists the MCP servers of the agent that sits here now.
func (s *seat) Servers(ctx context.Context) []agent.ToolServer {
	s.mu.Lock()
	who := s.who
	s.mu.Unlock()
	if who == nil {
		return nil
	}
	if a, ok := who.Agent.(served); ok {
		return a.Servers(ctx)
	}
	return nil
}

// Health is that of the agent who sits here.
func (s *seat) Health() error {
	s.mu.Lock()
	who := s.who
	s.mu.Unlock()
	if who == nil {
		return nil
	}
	if h, ok := who.Agent.(healthy); ok {
		return h.Health()
	}
	return nil
}

// swap puts another agent on the seat and returns who sat there.
func (s *seat) swap(a agent.Agent) *occupant {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.who
	s.who = nil
	if a != nil {
		s.who = &occupant{Agent: a}
	}
	return old
}

// retire closes an agent when its last turn has ended.
func (f *fleet) retire(o *occupant) {
	if o == nil {
		return
	}
	f.closing.Go(func() {
		o.turns.Wait()
		if c, ok := o.Agent.(closer); ok {
			c.Close()
		}
	})
}

// apply makes the agents of a configuration those of the server. When one of
// them cannot be made, nothing changes. Agents whose entry is the same stay.
func (f *fleet) apply(file *config.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	made := map[string]agent.Agent{}
	var errs []error
	for _, a := range file.Agents {
		if s := f.seats[a.Name]; s != nil && s.source == a.Source() {
			continue
		}
		make, ok := kinds[a.Kind]
		if !ok {
			errs = append(errs, a.Errorf("kind", "%q is not one of %s", a.Kind, strings.Join(kindNames(), ", ")))
			continue
		}
		built, err := make(f.p, a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		made[a.Name] = built
	}
	if err := errors.Join(errs...); err != nil {
		for _, a := range made {
			f.retire(&occupant{Agent: a})
		}
		return err
	}
	for name, s := range f.seats {
		if !slices.ContainsFunc(file.Agents, func(a *config.Agent) bool { return a.Name == name }) {
			f.p.agents.Remove(name)
			f.retire(s.swap(nil))
			delete(f.seats, name)
		}
	}
	for _, a := range file.Agents {
		s := f.seats[a.Name]
		if s == nil {
			s = &seat{}
			f.seats[a.Name] = s
		}
		if built := made[a.Name]; built != nil {
			f.retire(s.swap(built))
			s.source = a.Source()
		}
		f.p.agents.Add(agent.Info{Name: a.Name, Kind: a.Kind, Description: a.Description, Starters: a.Starters}, s)
	}
	f.file = file
	return nil
}

// settle decides about the demo agent, and who answers sessions that name nobody:
// who the command line names, else the file.
func (f *fleet) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seats[demo.Info.Name] == nil {
		if f.file.Demo || len(f.file.Agents) == 0 {
			f.p.agents.Add(demo.Info, demo.Agent{})
		} else {
			f.p.agents.Remove(demo.Info.Name)
		}
	}
	f.p.sessions.SetDefaultAgent(cmp.Or(f.p.cfg.Agent, f.file.Default(), demo.Info.Name))
}

func kindNames() []string {
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// configured reports whether there is a file.
func (f *fleet) configured() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file != nil
}

// reload reads the file again. A file with a mistake changes nothing.
func (f *fleet) reload() error {
	f.mu.Lock()
	old := f.file
	f.mu.Unlock()
	if old == nil {
		return errors.New("the server was started without a configuration file; give one with --config")
	}
	file, err := f.p.loadConfig(old.Path)
	if err != nil {
		return err
	}
	if err := f.apply(file); err != nil {
		return err
	}
	f.settle()
	return nil
}

// probeEvery is how often agents are asked how they are.
const probeEvery = time.Minute

// watch asks the agents how they are, and reloads when told to, until ctx ends.
// A reload does not wait for an agent that takes its time to say how it is.
func (f *fleet) watch(ctx context.Context, reload <-chan struct{}) {
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.probes(ctx, changed) })
	for {
		select {
		case <-reload:
		case <-ctx.Done():
			return
		}
		if err := f.reload(); err != nil {
			f.log.Error("the configuration was not taken; everything stays as it was", "err", err)
			continue
		}
		f.p.auth.Report(auth.ConfigurationReloaded, chat.Trusted, map[string]any{"agents": f.names()})
		f.log.Info("the configuration was read again", "agents", f.names(), "default", f.p.sessions.DefaultAgent())
		select {
		case changed <- struct{}{}:
		default: // they are asked anew anyway
		}
	}
}

// probes asks the agents how they are, every so often and when they have changed.
func (f *fleet) probes(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(probeEvery)
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

func (f *fleet) names() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name := range f.seats {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// probe asks all agents at once how they are. What changed is logged.
func (f *fleet) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	f.mu.Lock()
	seats := make(map[string]*seat, len(f.seats))
	for name, s := range f.seats {
		seats[name] = s
	}
	f.mu.Unlock()
	var wg sync.WaitGroup
	for name, s := range seats {
		wg.Go(func() {
			s.mu.Lock()
			who := s.who
			if who != nil {
				who.turns.Add(1) // so that it is not closed meanwhile
			}
			s.mu.Unlock()
			if who == nil {
				return
			}
			defer who.turns.Done()
			p, ok := who.Agent.(prober)
			if !ok {
				return
			}
			before := s.Health()
			if err := p.Probe(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) && (before == nil || before.Error() != err.Error()) {
				f.log.Warn("an agent is not well", "agent", name, "err", fmt.Sprint(err))
			}
		})
	}
	wg.Wait()
}

// close ends all agents and returns when they have ended.
func (f *fleet) close() {
	f.mu.Lock()
	for _, s := range f.seats {
		f.retire(s.swap(nil))
	}
	f.mu.Unlock()
	f.closing.Wait()
}
