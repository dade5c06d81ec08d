package agentfleet

import (
	"context"
	"errors"
	"sync"

	"github.com/parley-hq/parley/agent"
)

// The optional methods of an agent.
type (
	// closer is an agent that holds resources. Close is called when its last turn has ended.
	closer interface{ Close() }
	// healthy is an agent that reports the result of its last health check.
	healthy interface{ Health() error }
	// prober is an agent that can check its health.
	prober interface {
		Probe(ctx context.Context) error
	}
	// toolLister is an agent that lists its tools.
	toolLister interface {
		Tools(ctx context.Context) (tools []agent.ToolInfo, known bool)
	}
	// serverLister is an agent that lists its MCP servers.
	serverLister interface {
		Servers(ctx context.Context) []agent.ToolServer
	}
)

// slot is a name in the registry. The agent behind it may be replaced.
type slot struct {
	source string // the entry of the configuration, as it was written; guarded by Fleet.mu

	mu      sync.Mutex
	current *instance // nil when the fleet is closed
}

// instance is an agent and the turns that it answers.
type instance struct {
	agent.Agent
	turns sync.WaitGroup
}

// acquire returns the current instance, which is not closed before release is called. The instance is nil when the
// fleet is closed.
func (s *slot) acquire() (i *instance, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, func() {}
	}
	s.current.turns.Add(1)
	return s.current, s.current.turns.Done
}

// replace sets the agent of the slot and returns the instance before it.
func (s *slot) replace(a agent.Agent) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current
	s.current = nil
	if a != nil {
		s.current = &instance{Agent: a}
	}
	return old
}

// Answer lets the current agent answer the turn. A replaced agent answers its turns to their end.
func (s *slot) Answer(ctx context.Context, turn *agent.Turn) error {
	i, release := s.acquire()
	defer release()
	if i == nil {
		return errors.New("the server is ending")
	}
	return i.Agent.Answer(ctx, turn)
}

// Tools lists the tools of the current agent; known is false when it does not list them.
func (s *slot) Tools(ctx context.Context) (tools []agent.ToolInfo, known bool) {
	i, release := s.acquire()
	defer release()
	if i != nil {
		if a, ok := i.Agent.(toolLister); ok {
			return a.Tools(ctx)
		}
	}
	return nil, false
}

// Servers lists the MCP servers of the current agent.
func (s *slot) Servers(ctx context.Context) []agent.ToolServer {
	i, release := s.acquire()
	defer release()
	if i != nil {
		if a, ok := i.Agent.(serverLister); ok {
			return a.Servers(ctx)
		}
	}
	return nil
}

// Health is the result of the current agent's last health check.
func (s *slot) Health() error {
	i, release := s.acquire()
	defer release()
	if i != nil {
		if a, ok := i.Agent.(healthy); ok {
			return a.Health()
		}
	}
	return nil
}

// probe checks the health of the current agent.
func (s *slot) probe(ctx context.Context) error {
	i, release := s.acquire()
	defer release()
	if i != nil {
		if a, ok := i.Agent.(prober); ok {
			return a.Probe(ctx)
		}
	}
	return nil
}
