package agent

import (
	"context"
	"errors"
	"strconv"

	"github.com/parley-hq/parley/chat"
)

// Codes of agent.error events, for programs: why an agent could not answer.
const (
	CodeNoKey      = "no_key"           // the configuration names a key that is not there
	CodeDenied     = "denied"           // the endpoint does not take the key
	CodeRefused    = "refused"          // the endpoint does not take the request
	CodeNotFound   = "not_found"        // there is no such model or address
	CodeSlowDown   = "rate_limited"     // 429
	CodeDown       = "unavailable"      // cannot be reached, or 5xx
	CodeTimeout    = "timeout"          // nothing came for too long
	CodeCutOff     = "cut_off"          // the answer ended in the middle
	CodeUnreadable = "unreadable"       // the answer is not of the protocol
	CodeTooLarge   = "too_large"        // the answer has no end
	CodeReported   = "agent_failed"     // the endpoint says so itself
	CodeOverflow   = "context_overflow" // the conversation does not fit
	CodeEmpty      = "empty_answer"     // nothing was said
	CodeTooMany    = "too_many_steps"   // it finds no end
	CodeLost       = "interrupted"      // it cannot go on after a crash
	CodeNoWorker   = "no_worker"        // nobody answers to the agent's name
	CodeLength     = "length"           // a remark: the answer was cut to its limit
	CodeFiltered   = "content_filter"   // a remark: part of the answer was held back
	CodeNoSummary  = "no_summary"       // a remark: what does not fit is left out
)

// Failf is the error of an agent that cannot answer a turn: what happened, why,
// and what to do. Its fault is told in the session as agent.error with the code.
func Failf(fault string, code chat.Code, format string, args ...any) *chat.Error {
	return chat.Errorf(code, format, args...).WithReason(chat.AgentFailed).With("code", fault)
}

// fault tells people and programs why a turn ends, behind what was shown of it.
// It is the last word, so whether it can be written changes nothing.
func (t *Turn) fault(ctx context.Context, err error) {
	e, ok := errors.AsType[*chat.Error](err)
	if !ok || e.Reason != chat.AgentFailed {
		return
	}
	code, _ := e.Details["code"].(string)
	open, _ := t.sessions.Blocks(ctx, t.caller, t.session)
	for _, b := range open {
		if b.Turn == t.id {
			_ = t.Abandon(ctx, b)
		}
	}
	_ = t.note(ctx, "fault"+strconv.Itoa(t.Ref().Attempt), chat.AgentError{Message: e.Msg, Code: code})
}
