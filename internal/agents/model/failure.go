package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/retry"
	"github.com/parley-hq/parley/internal/text"
)

// advice maps a failure code to what the user can do about it, where the message does
// not say so.
var advice = map[string]string{
	agent.CodeNoKey:    "set it, then ask again",
	agent.CodeRefused:  "look at the settings of the agent in the configuration",
	agent.CodeSlowDown: "ask again in a while",
	agent.CodeDown:     "see that it runs and that endpoint in the configuration is right, then ask again",
	agent.CodeTimeout:  "ask again, or raise silence in the configuration",
	agent.CodeCutOff:   "ask again",
	agent.CodeOverflow: "say less at once, or raise window in the configuration if the model has room for more",

	agent.CodeUnreadable: "see that endpoint in the configuration is right",
}

// Failure is the reason why a request to the model failed.
type Failure struct {
	Code  string
	Msg   string        // shown to users
	After time.Duration // wait that the endpoint asks for; 0 if it gives none
	Again bool          // a retry may succeed
	err   error
}

// Error returns the message for users.
func (f *Failure) Error() string { return f.Msg }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.err }

// public returns the failure as a chat.Error.
func (f *Failure) public() error {
	code := chat.Unavailable
	switch f.Code {
	case agent.CodeSlowDown:
		code = chat.SlowDown
	case agent.CodeOverflow:
		code = chat.TooLarge
	}
	msg := f.Msg
	if do := advice[f.Code]; do != "" {
		msg = strings.TrimRight(msg, ".") + "; " + do
	}
	return agent.Failf(f.Code, code, "%s", msg).Because(f.err)
}

// errIdle is the cause that cancels a request when no event arrived for too long.
var errIdle = errors.New("the model's endpoint sent nothing for too long")

// incomplete returns the failure of an answer without an end: the stream was cut off,
// or the response is not a stream, for example a proxy's error page. The content type
// matters only if no event was read, because some endpoints stream with another type.
func incomplete(ctx context.Context, r *http.Response, begun bool) error {
	if begun || r == nil || strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return failure(ctx, io.ErrUnexpectedEOF)
	}
	return &Failure{Code: agent.CodeUnreadable, Again: true, Msg: fmt.Sprintf(
		"the model's endpoint answered with %s instead of a stream", sentence(cmp.Or(r.Header.Get("Content-Type"), "something")))}
}

// failure converts an error of a request to a *Failure. If the context was canceled,
// it returns the cause instead.
func failure(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errIdle) {
		return &Failure{Code: agent.CodeTimeout, Again: true, Msg: "the model's endpoint stopped answering", err: err}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*llm.EndpointError](err); ok {
		return endpointFailure(e)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
		return &Failure{Code: agent.CodeDown, Again: true, Msg: "the model's endpoint cannot be reached: " + networkReason(err), err: err}
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return &Failure{Code: agent.CodeTimeout, Again: true, Msg: "the model's endpoint did not answer in time", err: err}
	}
	if overflows(err.Error()) {
		return &Failure{Code: agent.CodeOverflow, Msg: "the conversation is too long for the model", err: err}
	}
	if _, ok := errors.AsType[*url.Error](err); ok && !disconnected(err) {
		return &Failure{Code: agent.CodeDown, Again: true, Msg: "the model's endpoint cannot be reached: " + networkReason(err), err: err}
	}
	return &Failure{Code: agent.CodeCutOff, Again: true, Msg: "the model's answer was cut off", err: err}
}

// disconnected reports whether the connection ended before the answer was complete.
func disconnected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// endpointFailure returns the failure for an error that the endpoint reports.
func endpointFailure(e *llm.EndpointError) error {
	f := &Failure{err: e, After: e.After}
	code, said := e.Status, sentence(e.Message)
	switch {
	case overflows(e.Code + " " + e.Message):
		f.Code, f.Msg = agent.CodeOverflow, "the conversation is too long for the model: "+said
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		f.Code, f.Msg = agent.CodeDenied, "the model's endpoint does not take the key; look at key_env or key_file in the configuration: "+said
	case code == http.StatusNotFound:
		f.Code, f.Msg = agent.CodeNotFound, "the model's endpoint does not know the model or the address; look at model and endpoint in the configuration: "+said
	case code == http.StatusTooManyRequests || code == 0 && strings.Contains(e.Code, "rate_limit"):
		f.Code, f.Again, f.Msg = agent.CodeSlowDown, true, "the model's endpoint has too much to do: "+said
	case code >= 500 || code == http.StatusRequestTimeout || code == http.StatusConflict:
		f.Code, f.Again, f.Msg = agent.CodeDown, true, fmt.Sprintf("the model's endpoint failed (%d): %s", code, said)
	case code < 400: // an error in the middle of a stream
		f.Code, f.Again, f.Msg = agent.CodeDown, true, "the model failed: "+said
	default:
		f.Code, f.Msg = agent.CodeRefused, fmt.Sprintf("the model's endpoint refused the request (%d): %s", code, said)
	}
	return f
}

// overflows reports whether an error text says that the conversation is too long. It
// matches the texts of known endpoints.
func overflows(text string) bool {
	text = strings.ToLower(text)
	for _, s := range []string{
		"context_length_exceeded", "maximum context length", "context length", "context window", "prompt is too long",
		"input is too long", "exceeds the maximum number of tokens", "exceed_context_size", "exceeds the available context size",
		"too many tokens", "input token count",
	} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// retryAfter returns the wait that the response headers ask for.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	wait, _ := retry.After(h)
	return wait
}

// sentence shortens an endpoint's text to one line for use in a message.
func sentence(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if s == "" {
		return "no reason was given"
	}
	return text.Clip(s, 300)
}

// networkReason returns the innermost part of a network error without addresses, which
// may contain secrets.
func networkReason(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "its host name cannot be resolved (" + sentence(e.Name) + ")"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "the connection was refused"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return sentence(e.Err.Error())
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return sentence(err.Error())
}
