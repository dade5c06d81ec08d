package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// tour shows a bit of everything, for looking at. It goes on when nobody answers
// its question.
func tour(ctx context.Context, t *agent.Turn, _ string) error {
	parts := []func() error{
		func() error { return t.Status(ctx, "Looking around", "planning") },
		func() error { return advance(ctx, t, 3, 2) },
		func() error {
			w := t.Think()
			if err := w.Write(ctx, "The visitor wants to see what a conversation looks like here. "); err != nil {
				return err
			}
			if err := w.Write(ctx, "I will use a tool, make a table, and ask something."); err != nil {
				return err
			}
			return w.Close(ctx)
		},
		func() error {
			_, err := call(ctx, t, "search", json.RawMessage(`{"query":"conversation layer","limit":3}`))
			return err
		},
		func() error { return failing(ctx, t, "fetch_page") },
		func() error { return publish(ctx, t, "table") },
		func() error { return publish(ctx, t, "chart") },
		func() error {
			return t.Usage(ctx, chat.AgentUsage{Model: Name, Usage: chat.Usage{InputTokens: 1280, OutputTokens: 342}})
		},
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	q, _ := question(chat.InputRadio, 120)
	how := "You did not answer in time, which is fine too."
	answer, err := t.Ask(ctx, q)
	if err != nil && !errors.Is(err, agent.ErrExpired) {
		return err
	}
	if err == nil {
		how = "You chose **" + given(answer) + "**."
	}
	return say(ctx, t, fmt.Sprintf(`%s

That was a tour of what an agent can do here:

1. tell what it is doing, with a plan that advances
2. think aloud, and use tools that work or fail
3. publish a table and a chart
4. ask a question that outlives your connection

Everything you saw is in the log. Reload the page: nothing is lost, nothing is doubled.`, how))
}
