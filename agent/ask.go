package agent

import (
	"context"
	"errors"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Ask asks a person and waits for the answer, over restarts if necessary. A notification is shown and not waited for.
func (t *Turn) Ask(ctx context.Context, q chat.AgentInputRequest) (answer chat.UserInputResponse, err error) {
	e, err := t.append(ctx, t.step(), q)
	if err != nil || q.InputType == chat.InputNotification {
		return answer, err
	}
	return awaitAnswer[chat.UserInputResponse](ctx, t, &e)
}

// Approve asks a person to approve calls and waits for the decisions, one per call in their order.
func (t *Turn) Approve(ctx context.Context, q chat.AgentApprovalRequest) ([]chat.Decision, error) {
	e, err := t.append(ctx, t.step(), q)
	if err != nil {
		return nil, err
	}
	answer, err := awaitAnswer[chat.UserApprovalResponse](ctx, t, &e)
	return answer.Decisions, err
}

// Permit asks a person to grant scopes and waits for the decision.
func (t *Turn) Permit(ctx context.Context, q chat.AgentPermissionRequest) (answer chat.UserPermissionResponse, err error) {
	e, err := t.append(ctx, t.step(), q)
	if err != nil {
		return answer, err
	}
	return awaitAnswer[chat.UserPermissionResponse](ctx, t, &e)
}

// awaitAnswer waits for the answer to the prompt that an event opened.
func awaitAnswer[A chat.Body](ctx context.Context, t *Turn, asked *chat.Event) (answer A, err error) {
	p, ok := chat.AsPrompt(asked)
	if !ok {
		return answer, chat.Errorf(chat.Internal, "the server returned %s for a prompt", asked.Type)
	}
	body, err := t.Answer(ctx, p.RequestID)
	answer, _ = body.(A)
	return answer, err
}

// Answer waits for the end of a prompt that is stored already: the body of its answer, or ErrExpired or ErrWithdrawn.
func (t *Turn) Answer(ctx context.Context, requestID string) (chat.Body, error) {
	e, err := t.inbox.answer(ctx, requestID)
	if err != nil && context.Cause(ctx) == ErrNotNeeded {
		return nil, errors.Join(err, t.transport.WithdrawPrompt(context.WithoutCancel(ctx), requestID))
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

// Withdraw closes the prompts that earlier attempts opened in this part and that have no answer.
func (t *Turn) Withdraw(ctx context.Context) error {
	for i := range t.past {
		e := &t.past[i]
		p, ok := chat.AsPrompt(e)
		if !ok || !strings.HasPrefix(e.ClientID, t.key(t.part)) || t.stored[e.ClientID].Seq != e.Seq {
			continue
		}
		if err := t.transport.WithdrawPrompt(ctx, p.RequestID); err != nil {
			return err
		}
	}
	return nil
}
