package agent

import (
	"context"
	"errors"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// ErrExpired says that nobody answered in time; ErrWithdrawn that the question
// was taken back.
var (
	ErrExpired   = errors.New("nobody answered in time")
	ErrWithdrawn = errors.New("the question was withdrawn")
)

// ErrMoot is the cause with which the context of a question ends when nobody needs
// the answer any more although the turn goes on: the question is withdrawn. One
// whose context ends for another reason stays open, so that it outlives restarts.
var ErrMoot = errors.New("nobody needs the answer any more")

// Ask asks a person and waits for the answer, over restarts if need be. A
// notification is shown and not waited for.
func (t *Turn) Ask(ctx context.Context, q chat.AgentInputRequest) (chat.UserInputResponse, error) {
	var answer chat.UserInputResponse
	e, err := t.append(ctx, q, t.key(t.step()))
	if err != nil || q.InputType == chat.InputNotification {
		return answer, err
	}
	body, err := t.answer(ctx, e.Body.(chat.AgentInputRequest).RequestID)
	if err != nil {
		return answer, err
	}
	answer, _ = body.(chat.UserInputResponse)
	return answer, nil
}

// Approve asks a person to approve calls and waits for the decisions, one per
// call in their order.
func (t *Turn) Approve(ctx context.Context, q chat.AgentApprovalRequest) ([]chat.Decision, error) {
	e, err := t.append(ctx, q, t.key(t.step()))
	if err != nil {
		return nil, err
	}
	body, err := t.answer(ctx, e.Body.(chat.AgentApprovalRequest).RequestID)
	if err != nil {
		return nil, err
	}
	b, _ := body.(chat.UserApprovalResponse)
	return b.Decisions, nil
}

// Permit asks a person to grant scopes and waits for the decision.
func (t *Turn) Permit(ctx context.Context, q chat.AgentPermissionRequest) (chat.UserPermissionResponse, error) {
	var answer chat.UserPermissionResponse
	e, err := t.append(ctx, q, t.key(t.step()))
	if err != nil {
		return answer, err
	}
	body, err := t.answer(ctx, e.Body.(chat.AgentPermissionRequest).RequestID)
	if err != nil {
		return answer, err
	}
	answer, _ = body.(chat.UserPermissionResponse)
	return answer, nil
}

// Withdraw takes back what earlier attempts asked in this part and nobody has
// answered: what led to the questions is over.
func (t *Turn) Withdraw(ctx context.Context) error {
	var asked []string
	t.mu.Lock()
	for i := range t.past {
		e := &t.past[i]
		if p, ok := chat.AsPrompt(e); ok && strings.HasPrefix(e.ClientID, t.key(t.part)) && t.said[e.ClientID].Seq == e.Seq {
			asked = append(asked, p.RequestID)
		}
	}
	t.mu.Unlock()
	for _, id := range asked {
		if err := t.sessions.WithdrawPrompt(ctx, t.Ref(), id); err != nil {
			return err
		}
	}
	return nil
}

func (t *Turn) answer(ctx context.Context, requestID string) (chat.Body, error) {
	e, err := t.box.wait(ctx, requestID)
	if err != nil && context.Cause(ctx) == ErrMoot {
		return nil, errors.Join(err, t.sessions.WithdrawPrompt(context.WithoutCancel(ctx), t.Ref(), requestID))
	}
	if err != nil {
		return nil, err
	}
	if b, ok := e.Body.(chat.PromptClosed); ok {
		if b.Reason == chat.Expired {
			return nil, ErrExpired
		}
		return nil, ErrWithdrawn
	}
	return e.Body, nil
}
