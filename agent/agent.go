package agent

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/parley-hq/parley/chat"
)

// An Agent answers turns. The package documentation lists the calls it may make and how a turn may end.
//
// Answer is called once for each attempt at a turn, in a goroutine of its own. It returns when the answer is complete
// or ctx ends.
//
// An agent may have these methods besides; the server uses them when it runs the agent in its process:
//
//	Health() error                                      // why the agent cannot be used at the moment
//	Tools(ctx context.Context) ([]ToolInfo, bool)       // the tools it can use; false if it does not list them
//	Servers(ctx context.Context) []ToolServer           // the MCP servers it uses
//	Commands() []chat.AgentCommand                      // the commands it understands
type Agent interface {
	Answer(ctx context.Context, turn *Turn) error
}

// Func is an Agent made of a function.
type Func func(ctx context.Context, turn *Turn) error

// Answer calls f.
func (f Func) Answer(ctx context.Context, turn *Turn) error { return f(ctx, turn) }

// Run calls the agent. A panic becomes an error. Transports use it.
func Run(ctx context.Context, a Agent, turn *Turn, log *slog.Logger) (err error) {
	defer func() {
		if v := recover(); v != nil {
			log.ErrorContext(ctx, "an agent panicked", "session", turn.Session, "turn", turn.ID, "agent", turn.Agent, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("the agent panicked: %v", v)
		}
	}()
	return a.Answer(ctx, turn)
}

// Info describes an agent in lists.
type Info struct {
	Name        string              `json:"name"`
	Kind        string              `json:"kind"` // builtin, worker, …
	Description string              `json:"description,omitempty"`
	Starters    []string            `json:"starters,omitempty"` // suggested first messages
	Commands    []chat.AgentCommand `json:"commands,omitempty"`
	Models      []string            `json:"models,omitempty"`  // that a session may select, the agent's own first
	Default     bool                `json:"default,omitempty"` // answers sessions that name no agent
	Healthy     bool                `json:"healthy"`
	Problem     string              `json:"problem,omitempty"` // why it is not healthy
	Workers     int                 `json:"workers,omitempty"` // connected workers
	Running     int                 `json:"running"`           // running turns
}

// ToolInfo describes a tool that an agent can use.
type ToolInfo struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Server      string `json:"server,omitempty"` // the MCP server that has it; "" for the agent's own
}

// ToolServer describes an MCP server that an agent uses.
type ToolServer struct {
	Agent     string
	Name      string
	Transport string     // stdio or streamable-http
	Problem   string     // why it cannot be used; "" when it can
	Tools     []ToolInfo // under the server's own names for them
}
