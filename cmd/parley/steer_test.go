package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// Under the policy steer the demo agent receives a message between the tasks of its plan; under queue it answers the
// message afterwards.
func TestSteeringMessageReachesTheRunningTurn(t *testing.T) {
	c, err := client.New(client.Options{URL: launch(t, t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for policy, want := range map[chat.Policy]string{
		chat.Steer: "All 2 tasks are done. Messages received meanwhile: hurry",
		chat.Queue: "All 2 tasks are done.|You said: hurry",
	} {
		s, err := c.Create(ctx, client.NewSession{Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		// Both at once, so that the second arrives while the first is answered.
		if _, err := c.Append(ctx, s.ID, chat.NewDraft(chat.UserMessage{Text: "/plan 2"}), chat.NewDraft(chat.UserMessage{Text: "hurry"})); err != nil {
			t.Fatal(err)
		}
		var said []string
		turns := strings.Count(want, "|") + 1
		for f, err := range c.Watch(ctx, s.ID, client.WatchOptions{After: "0"}) {
			if err != nil {
				t.Fatal(err)
			}
			if f.Event == nil {
				continue
			}
			if text, ok := f.Event.Body.(chat.AgentText); ok {
				said = append(said, text.Text)
			}
			if _, ok := f.Event.Body.(chat.TurnCompleted); ok {
				if turns--; turns == 0 {
					break
				}
			}
		}
		if got := strings.Join(said, "|"); got != want {
			t.Errorf("%s: %q, want %q", policy, got, want)
		}
	}
}
