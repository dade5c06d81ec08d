package chat

import "strings"

// AgentCommand is a command that an agent understands: a message that begins with its
// name. Clients offer the commands of an agent to people who write a message; to the
// server such a message is a text like any other.
type AgentCommand struct {
	Name        string `json:"name"`                  // with its slash, such as /summary
	Description string `json:"description,omitempty"` // what it does, in one line
	Input       string `json:"input,omitempty"`       // what follows the name, such as "N [SECONDS]"; "" for nothing
}

// MaxAgentCommands and MaxAgentCommandBytes bound the commands of one agent and the bytes
// of all their texts.
const (
	MaxAgentCommands     = 100
	MaxAgentCommandBytes = 8 << 10
)

// CheckAgentCommands reports why a list cannot be the commands of an agent.
func CheckAgentCommands(list []AgentCommand) error {
	if len(list) > MaxAgentCommands {
		return Errorf(TooLarge, "an agent has at most %d commands", MaxAgentCommands)
	}
	size := 0
	for _, c := range list {
		if rest, ok := strings.CutPrefix(c.Name, "/"); !ok || !wordOf(rest, 64, "._-:") {
			return Errorf(Invalid, "the name of a command is a slash and 1 to 64 of A-Z a-z 0-9 . _ - :").With("command", c.Name)
		}
		size += len(c.Name) + len(c.Description) + len(c.Input)
	}
	if size > MaxAgentCommandBytes {
		return Errorf(TooLarge, "the texts of an agent's commands have at most %d bytes", MaxAgentCommandBytes)
	}
	return nil
}
