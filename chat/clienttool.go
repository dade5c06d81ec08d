package chat

import (
	"slices"

	"github.com/parley-hq/parley/internal/json"
)

// ClientTool is a tool that the sender of a message runs: a call of it is asked for
// like an approval, and the answer brings the result.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema of an object
}

// clientTools is what a message's context says of them.
type clientTools struct {
	Tools []ClientTool `json:"client_tools"`
}

// ClientTools lists the tools that come with the message, under client_tools in
// its context.
func (b *UserMessage) ClientTools() []ClientTool {
	var c clientTools
	if len(b.Context) == 0 || json.Unmarshal(b.Context, &c) != nil {
		return nil
	}
	return slices.DeleteFunc(c.Tools, func(t ClientTool) bool { return t.Name == "" })
}

// System is what the sender adds to the instructions of the agent
// when it answers the message, under system in its context.
func (b *UserMessage) System() string {
	var c struct {
		System string `json:"system"`
	}
	if len(b.Context) == 0 || json.Unmarshal(b.Context, &c) != nil {
		return ""
	}
	return c.System
}
