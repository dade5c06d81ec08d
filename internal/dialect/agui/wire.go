package agui

import (
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
)

// The types of the protocol.
type (
	message     = aguiwire.Message
	part        = aguiwire.Part
	resumeEntry = aguiwire.Resume
	outcome     = aguiwire.Outcome
	stored      = aguiwire.Stored
)

// input is the body of a request for a run.
type input struct {
	aguiwire.Input
	PythonThread string `json:"thread_id,omitempty"` // these are of the client of Microsoft's Agent Framework
	PythonRun    string `json:"run_id,omitempty"`

	Branch bool `json:"-"` // from the query: see branches
	Calls  int  `json:"-"` // from aguiwire.CallsHeader
}

// event is an event of any type. Optional fields are left out: clients refuse null.
type event struct {
	Type      string            `json:"type"`
	Thread    string            `json:"threadId,omitempty"`
	Run       string            `json:"runId,omitempty"`
	Version   string            `json:"protocolVersion,omitempty"`
	Input     *aguiwire.Input   `json:"input,omitempty"` // what people said to the run, for readers that were not there
	MessageID string            `json:"messageId,omitempty"`
	Role      string            `json:"role,omitempty"`
	CallID    string            `json:"toolCallId,omitempty"`
	CallName  string            `json:"toolCallName,omitempty"`
	Delta     any               `json:"delta,omitempty"` // a text, or the patch of a state
	Patch     json.RawMessage   `json:"patch,omitempty"`
	Activity  string            `json:"activityType,omitempty"`
	Content   json.RawMessage   `json:"content,omitempty"`
	Subagent  string            `json:"subagentRunId,omitempty"`
	Parent    string            `json:"parentSubagentRunId,omitempty"`
	Name      string            `json:"name,omitempty"`
	About     string            `json:"description,omitempty"`
	Value     json.RawMessage   `json:"value,omitempty"`
	Snapshot  json.RawMessage   `json:"snapshot,omitempty"`
	Messages  []message         `json:"messages,omitempty"`
	Message   string            `json:"message,omitempty"`
	Code      string            `json:"code,omitempty"`
	Result    json.RawMessage   `json:"result,omitempty"`
	Outcome   *outcome          `json:"outcome,omitempty"`
	Usage     []aguiwire.Tokens `json:"usage,omitempty"`
	Metadata  map[string]any    `json:"metadata,omitempty"`
	Time      int64             `json:"timestamp,omitempty"` // milliseconds
}
