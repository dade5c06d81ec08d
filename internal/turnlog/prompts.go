package turnlog

import (
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// PromptTypes are the events that open and close prompts.
var PromptTypes = []string{
	chat.AgentInputRequest{}.Type(), chat.AgentApprovalRequest{}.Type(), chat.AgentPermissionRequest{}.Type(),
	chat.UserInputResponse{}.Type(), chat.UserApprovalResponse{}.Type(), chat.UserPermissionResponse{}.Type(), chat.PromptClosed{}.Type(),
}

// recentPrompts bounds the events that ClosedPrompts reads.
const recentPrompts = 1000

// ClosedPrompt is a prompt that has ended.
type ClosedPrompt struct {
	chat.Prompt
	Asked chat.EventID
	End   chat.Event // the answer, or prompt.closed
}

// ClosedPrompts yields the prompts of a session that have ended, the last one first. It reads only the last 1000 events about
// prompts.
func ClosedPrompts(ctx context.Context, sessions Sessions, c chat.Caller, id chat.SessionID) iter.Seq2[ClosedPrompt, error] {
	return func(yield func(ClosedPrompt, error) bool) {
		ends := map[string]chat.Event{}
		for e, err := range sessions.Events(ctx, c, id, chat.Range{Limit: recentPrompts, Desc: true, Types: PromptTypes}) {
			if err != nil {
				yield(ClosedPrompt{}, err)
				return
			}
			p, ok := chat.AsPrompt(&e)
			if !ok {
				ends[chat.AnswerOf(e.Body)] = e
				continue
			}
			if end, closed := ends[p.RequestID]; closed && !yield(ClosedPrompt{p, e.ID, end}, nil) {
				return
			}
		}
	}
}
