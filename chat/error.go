package chat

import (
	"errors"
	"fmt"
	"strconv"
)

// Code says what kind of thing went wrong. Each dialect maps codes to its own
// form in one table.
type Code string

// The codes. An error that carries none is Internal.
const (
	Invalid         Code = "invalid"         // the request is malformed or breaks a rule of form
	Unauthenticated Code = "unauthenticated" // who is asking is not known
	Denied          Code = "denied"          // known, but not allowed
	NotFound        Code = "not_found"       // no such thing, or not for this actor to know
	Conflict        Code = "conflict"        // the state of the session does not allow it any more
	Gone            Code = "gone"            // erased, or a cursor from another life of the log
	TooLarge        Code = "too_large"       // over a size limit
	SlowDown        Code = "slow_down"       // over a rate or queue limit; try again later
	Unavailable     Code = "unavailable"     // the server cannot do it now (disk full, shutting down)
	Internal        Code = "internal"        // a fault of the server
)

// Error is the one error type that crosses folders. Msg is safe to show a
// person; Err is the cause and is for the log only.
type Error struct {
	Code    Code
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
	for k, v := range e.Details {
		c.Details[k] = v
	}
	c.Details[key] = value
	return &c
}

// RetryAfter is what the HTTP header Retry-After says about e: the seconds after
// which the same request may succeed, "" when it will not. A detail retry_after
// names them; without one it is a second.
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

// Public returns what may be shown of err: the Error inside it, or a plain
// internal error that gives nothing away.
func Public(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Internal, Msg: "something went wrong on the server; the log of the server has the cause", Err: err}
}
