package chat

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
)

// Code is the class of an error. Each dialect maps codes to its own form in one
// table.
type Code string

// The codes. An error that carries none is Internal.
const (
	Invalid         Code = "invalid"         // the request is malformed
	Unauthenticated Code = "unauthenticated" // the request has no valid credential
	Denied          Code = "denied"          // the caller is known but not allowed
	NotFound        Code = "not_found"       // it does not exist, or the caller may not see it
	Conflict        Code = "conflict"        // the state of the session does not allow it any more
	Gone            Code = "gone"            // the session was erased, or a cursor is beyond its last event
	TooLarge        Code = "too_large"       // over a size limit
	SlowDown        Code = "slow_down"       // over a rate or queue limit; try again later
	Unavailable     Code = "unavailable"     // the server cannot do it now (disk full, shutting down)
	Internal        Code = "internal"        // a fault of the server
)

// Reason says more precisely than the code why a request was refused. Code that
// reacts to one kind of refusal compares the reason, never the text or the details.
// Most errors have none: a reason is added here when code has to tell it from others.
type Reason string

// The reasons. The list is closed: all errors use one of these constants. The
// comment names the details that come with the reason.
const (
	// ClientIDReused: the client id belongs to an event with another content.
	// Details: sequence, of that event.
	ClientIDReused Reason = "client_id_reused"
	// SessionChanged: the session is not in the state that the request expects: look at
	// it again, and decide again. Details: last, the sequence of the last event, if the
	// request named another one.
	SessionChanged Reason = "session_changed"
	// PromptEnded: the prompt was answered or closed before. Details: request_id,
	// sequence of the event that ended it, answered_by and answered_at, or reason.
	PromptEnded Reason = "prompt_ended"
	// PreviewOffset: a preview does not continue the block. Details: have, the
	// bytes of the block that the server has.
	PreviewOffset Reason = "preview_offset"
	// EraseUnfinished: the erasure is recorded and continues by itself, but it is not
	// complete yet. Details: erasing, always true.
	EraseUnfinished Reason = "erase_unfinished"
	// CommitConflict: the log has events that the decision did not see; decide
	// again. Details: last, the sequence of the last event.
	CommitConflict Reason = "commit_conflict"
	// OwnerChanged: another node of the cluster has taken the session over; nothing was
	// written.
	OwnerChanged Reason = "owner_changed"
	// OutcomeUnknown: the node that was asked ended meanwhile; it may have stored the
	// request or not.
	OutcomeUnknown Reason = "outcome_unknown"
	// NoOwner: no node of the cluster can write the session at the moment; nothing was
	// written.
	NoOwner Reason = "no_owner"
	// AttemptOver: the turn is in a newer attempt. Details: turn_id, attempt.
	AttemptOver Reason = "attempt_over"
	// EpochSuperseded: a sidecar with a higher epoch writes to the session. Details:
	// epoch, the higher one.
	EpochSuperseded Reason = "epoch_superseded"
	// EmptyAnswer: the model's answer has no content. Details: stop, why the model
	// stopped.
	EmptyAnswer Reason = "empty_answer"
	// AgentFailed: the agent cannot answer the turn. Details: code, the code of the
	// agent.error event.
	AgentFailed Reason = "agent_failed"
)

// Error is the error type of all packages. Msg is safe to show a person; Err is
// the cause and is for the log only.
type Error struct {
	Code    Code
	Reason  Reason // "" when the code says enough
	Msg     string
	Details map[string]any // machine-readable facts a client may act on
	Err     error
}

// Errorf makes an Error. The text is shown to people: say what happened, why,
// and what to do.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// With returns a copy of e that carries one more detail.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Details = make(map[string]any, len(e.Details)+1)
	maps.Copy(c.Details, e.Details)
	c.Details[key] = value
	return &c
}

// WithReason returns a copy of e that has the reason r.
func (e *Error) WithReason(r Reason) *Error {
	c := *e
	c.Reason = r
	return &c
}

// Draft is the index of the draft that was refused, of several in one request. It
// is 0 when the request had only one, or when e is not about a draft.
func (e *Error) Draft() int {
	i, _ := e.Details["index"].(int)
	return i
}

// RetryAfter is the value of the HTTP header Retry-After: the seconds after which
// the same request may succeed, "" when it will not. The detail retry_after has
// them; the default is one second.
func (e *Error) RetryAfter() string {
	if e.Code != SlowDown && e.Code != Unavailable {
		return ""
	}
	if s, ok := e.Details["retry_after"].(int); ok {
		return strconv.Itoa(s)
	}
	return "1"
}

// Because returns a copy of e with its cause.
func (e *Error) Because(err error) *Error {
	c := *e
	c.Err = err
	return &c
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code err carries, Internal if it carries none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// ReasonOf returns the reason err carries, or "".
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// Public returns what may be shown of err: the Error inside it, or an internal
// error that does not reveal the cause.
func Public(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Internal, Msg: "something went wrong on the server; the log of the server has the cause", Err: err}
}
