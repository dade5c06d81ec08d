package agent

import (
	"context"
	"errors"
	"sort"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// An Agent answers one turn. What it says goes through turn; it returns when
// done or when ctx ends.
type Agent interface {
	Answer(ctx context.Context, turn *Turn) error
}

// Func is an Agent made of a function.
type Func func(ctx context.Context, turn *Turn) error

// Answer calls f.
func (f Func) Answer(ctx context.Context, turn *Turn) error { return f(ctx, turn) }

// Info describes an agent to people.
type Info struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind"` // builtin, worker, …
	Description string   `json:"description,omitempty"`
	Starters    []string `json:"starters,omitempty"` // messages to begin with
	Default     bool     `json:"default,omitempty"`  // answers sessions that name no agent
	Healthy     bool     `json:"healthy"`
	Problem     string   `json:"problem,omitempty"` // why not, as far as it is known
	Workers     int      `json:"workers,omitempty"` // connected, for workers
	Running     int      `json:"running"`           // turns under way
}

// Registry knows the agents of a server by name. Names it does not know belong
// to workers that may connect.
type Registry struct {
	mu      sync.RWMutex
	agents  map[string]Agent
	infos   map[string]Info
	workers *Pool
}

// NewRegistry returns a registry whose unknown names are answered by workers.
func NewRegistry(workers *Pool) *Registry {
	return &Registry{agents: map[string]Agent{}, infos: map[string]Info{}, workers: workers}
}

// Add makes an agent known. Turns that wait for a worker of its name are now its.
func (r *Registry) Add(info Info, a Agent) {
	r.mu.Lock()
	r.agents[info.Name], r.infos[info.Name] = a, info
	r.mu.Unlock()
	r.workers.wake(info.Name)
}

// ToolInfo describes to people a tool that an agent can use.
type ToolInfo struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Server      string `json:"server,omitempty"` // the MCP server that has it; "" for the agent's own
}

// Tools lists what an agent can use; known is false for one that does not say.
func (r *Registry) Tools(ctx context.Context, name string) (tools []ToolInfo, known bool) {
	r.mu.RLock()
	a := r.agents[name]
	r.mu.RUnlock()
	if a, ok := a.(interface {
		Tools(ctx context.Context) (tools []ToolInfo, known bool)
	}); ok {
		return a.Tools(ctx)
	}
	return nil, false
}

// Remove makes an agent unknown; its name belongs to workers again. Turns that it
// answers go on.
func (r *Registry) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, name)
	delete(r.infos, name)
}

// answer lets the agent of a name answer a turn, or a worker. A turn that no
// worker has goes to the agent that is given the name meanwhile.
func (r *Registry) answer(ctx context.Context, name string, turn *Turn) error {
	for {
		r.mu.RLock()
		a := r.agents[name]
		r.mu.RUnlock()
		if a != nil {
			return a.Answer(ctx, turn)
		}
		err := r.workers.answer(ctx, team{turn.workspace, name}, turn, func() bool { return r.Builtin(name) })
		if !errors.Is(err, errTaken) {
			return err
		}
	}
}

// Builtin reports whether the name is answered in the process.
func (r *Registry) Builtin(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.agents[name]
	return ok
}

// List describes the agents that a workspace can use, by name.
func (r *Registry) List(workspace string, running map[string]int) []Info {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []Info
	for name, info := range r.infos {
		info.Healthy = true
		if h, ok := r.agents[name].(interface{ Health() error }); ok {
			if err := h.Health(); err != nil {
				info.Healthy, info.Problem = false, err.Error()
			}
		}
		all = append(all, info)
	}
	for _, info := range r.workers.list(workspace) {
		if _, taken := r.infos[info.Name]; !taken || info.Workers > 0 { // a turn may wait since the name was nobody's
			all = append(all, info)
		}
	}
	for i := range all {
		all[i].Running = running[all[i].Name]
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// sessions is all that agents need of the rules.
type sessions interface {
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error
	EndTurn(ctx context.Context, ref chat.TurnRef, outcome chat.Outcome, cause string) error
	ResumeTurn(ctx context.Context, ref chat.TurnRef, reason string, crash bool) (chat.TurnRef, bool, error)
	WithdrawPrompt(ctx context.Context, ref chat.TurnRef, requestID string) error
	TakeSteered(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error)
	TakeNews(ctx context.Context, ref chat.TurnRef) ([]chat.Seq, error)
	TakeNewsOf(ctx context.Context, ref chat.TurnRef, workstreams []string) ([]chat.Seq, error)
	Launch(ctx context.Context, c chat.Caller, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error)
	MessageWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	SteerWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	TerminateWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	ReportWorkstream(ctx context.Context, ref chat.TurnRef, clientID string, p chat.WorkstreamProgress) error
	Workstreams(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.WorkstreamStatus, error)
	Turns(ctx context.Context, id chat.SessionID, f func(ref chat.TurnRef, workstream string, t chat.Turn)) error
	Working(ctx context.Context) ([]chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	Blocks(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.Block, error)
}
