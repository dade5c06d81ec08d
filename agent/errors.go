package agent

import (
	"context"
	"errors"
	"strconv"

	"github.com/parley-hq/parley/chat"
)

// Causes with which the context of a turn ends.
var (
	ErrStopped  = errors.New("the turn was stopped")
	ErrTurnLost = errors.New("the turn was given to another worker or has ended")
)

// Stopped reports whether ctx ended because the turn was stopped.
func Stopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopped) }

// ErrInterrupted is returned by an agent that cannot continue a turn. The turn ends as interrupted; the turn of a
// worker ends as failed.
var ErrInterrupted = errors.New("the agent cannot continue")

// Why a prompt has no answer.
var (
	ErrExpired   = errors.New("the prompt expired without an answer")
	ErrWithdrawn = errors.New("the question was withdrawn")
)

// ErrNotNeeded is a cause for the context of a prompt: the answer is not needed any more although the turn continues.
// The prompt is withdrawn. If the context ends for another reason, the prompt stays open, so that it survives restarts.
var ErrNotNeeded = errors.New("the answer is not needed any more")

// ErrUnknownOutcome is the error of a tool call that an earlier attempt began and that has no stored result.
var ErrUnknownOutcome = errors.New("the tool was running when the agent was cut off; whether it took effect is not known")

// Codes of agent.error events, for programs: why an agent could not answer.
const (
	CodeNoKey      = "no_key"           // the configuration names a key that does not exist
	CodeDenied     = "denied"           // the endpoint does not accept the key
	CodeRefused    = "refused"          // the endpoint does not accept the request
	CodeNotFound   = "not_found"        // the endpoint has no such model or address
	CodeSlowDown   = "rate_limited"     // 429
	CodeDown       = "unavailable"      // cannot be reached, or 5xx
	CodeTimeout    = "timeout"          // no data arrived for too long
	CodeCutOff     = "cut_off"          // the answer ended in the middle
	CodeUnreadable = "unreadable"       // the answer does not follow the protocol
	CodeTooLarge   = "too_large"        // the answer exceeds the limits
	CodeReported   = "agent_failed"     // the endpoint reported an error
	CodeOverflow   = "context_overflow" // the conversation does not fit
	CodeEmpty      = "empty_answer"     // the answer has no content
	CodeTooMany    = "too_many_steps"   // the limit of steps was reached
	CodeLost       = "interrupted"      // the agent cannot continue after a crash
	CodeNoWorker   = "no_worker"        // no worker serves the agent's name
	CodeLength     = "length"           // a remark: the answer was cut to its limit
	CodeFiltered   = "content_filter"   // a remark: part of the answer was held back
	CodeNoSummary  = "no_summary"       // a remark: what does not fit is left out
)

// Failf returns the error of an agent that cannot answer a turn: what happened, why, and what to do. The session gets
// an agent.error event with the code and the text.
func Failf(agentCode string, code chat.Code, format string, args ...any) *chat.Error {
	return chat.Errorf(code, format, args...).WithReason(chat.AgentFailed).With("code", agentCode)
}

// ErrorText is the text of an agent's error that people see. Causes of a chat.Error are left out.
func ErrorText(err error) string {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return e.Msg
	}
	return err.Error()
}

// FaultDrafts returns the events that report the error of a turn, if [Failf] made it: the open blocks of the turn are
// closed as they were shown, then comes agent.error. Transports store them before the turn ends.
func FaultDrafts(ref chat.TurnRef, open []chat.Block, err error) []chat.Draft {
	e, ok := errors.AsType[*chat.Error](err)
	if !ok || e.Reason != chat.AgentFailed {
		return nil
	}
	code, _ := e.Details["code"].(string)
	var drafts []chat.Draft
	for _, b := range open {
		drafts = append(drafts, chat.NewDraft(partial(b)).As(key(ref.Turn, "close-"+string(b.ID))))
	}
	fault := chat.AgentError{Message: e.Msg, Code: code}
	return append(drafts, chat.NewDraft(fault).As(key(ref.Turn, "fault"+strconv.Itoa(ref.Attempt))))
}
