package client_test

import (
	"context"
	"log"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// A worker: an agent of your own that answers in upper case, after asking.
func ExampleClient_Work() {
	c, err := client.New(client.Options{Token: "a token with the scope agent"})
	if err != nil {
		log.Fatal(err)
	}
	err = c.Work(context.Background(), "shouter", client.WorkOptions{Slots: 8}, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		sure, err := turn.Ask(ctx, chat.AgentInputRequest{
			InputType: chat.InputBinary, Text: "Really shout?", Timeout: 60,
			Options: []chat.Option{{ID: "yes", Label: "Yes"}, {ID: "no", Label: "No"}},
		})
		if err != nil {
			return err
		}
		if sure.Values[0] == "no" {
			return turn.Say(ctx, turn.Text())
		}
		w := turn.Stream(true)
		for word := range strings.FieldsSeq(turn.Text()) {
			if err := w.Write(ctx, strings.ToUpper(word)+" "); err != nil {
				return err
			}
		}
		return w.Close(ctx)
	}))
	log.Fatal(err)
}
