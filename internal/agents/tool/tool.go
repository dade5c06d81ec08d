package tool

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Tool is something that an agent can use.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object; empty means no parameters
	Repeatable  bool            // may be run again when the result of the first run is not known
	Approval    Approval        // unless a rule sets another; "" means Never
	Untimed     bool            // it waits for people, so no time-out ends it
	Client      bool            // the sender of the message executes it; Run is nil
	Run         func(ctx context.Context, c Call) (json.RawMessage, error)
}

// Call is one use of a tool.
type Call struct {
	ID     string
	Tool   string
	Params json.RawMessage // an object
	Turn   *agent.Turn     // a part of the turn for this call alone

	// Timeout is how long the tool may take without reporting progress; 0 means no
	// limit. The time that a person takes to answer does not count.
	Timeout time.Duration
}

// Error is why a tool failed, for the model and for people.
type Error struct {
	Code string // of the event agent.tool_error
	Msg  string
	Err  error // for the log
}

// Error returns the message for the model and for people.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Codes of agent.tool_error events.
const (
	Invalid     = "invalid_arguments"
	Unknown     = "unknown_tool"
	Denied      = "denied"
	TimedOut    = "timeout"
	Unavailable = "unavailable"
	Failed      = "failed"
	Lost        = chat.UnknownOutcome
)

// CodeOf returns the code of a tool's error.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Code != "" {
		return e.Code
	}
	return Failed
}

// Read reads the arguments of a call into v.
func (c Call) Read(v any) error {
	if err := json.Unmarshal(c.Params, v); err != nil {
		return &Error{Code: Invalid, Msg: "the arguments do not fit the tool's parameters: " + err.Error(), Err: err}
	}
	return nil
}
