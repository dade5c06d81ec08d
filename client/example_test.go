package client_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// Begin a session, say something, and print the answer as it is written.
func Example() {
	ctx := context.Background()
	c, err := client.New(client.Options{URL: "http://127.0.0.1:8000"})
	if err != nil {
		log.Fatal(err)
	}
	session, err := c.Create(ctx, client.NewSession{Agent: "demo"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Say(ctx, session.ID, "/echo Hello there"); err != nil {
		log.Fatal(err)
	}
	shown := map[chat.BlockID]int{} // bytes of each block
	// Cut the network, restart the server: the loop goes on where it was.
	for frame, err := range c.Watch(ctx, session.ID, client.WatchOptions{After: "0"}) {
		if err != nil {
			log.Fatal(err)
		}
		if p := frame.Preview; p != nil { // a piece, as it is being written
			fmt.Print(p.Text)
			shown[p.Block] = p.End
		}
		if frame.Event == nil {
			continue
		}
		switch b := frame.Event.Body.(type) {
		case chat.AgentText: // the whole block: print what came too fast to be shown
			fmt.Println(b.Text[shown[b.Block]:])
		case chat.TurnCompleted:
			return
		}
	}
}

// A worker: an agent of your own that answers in upper case, after asking.
func ExampleClient_Work() {
	c, err := client.New(client.Options{Token: "a token with the scope agent"})
	if err != nil {
		log.Fatal(err)
	}
	err = c.Work(context.Background(), "shouter", client.WorkOptions{Slots: 8}, func(ctx context.Context, turn *client.WorkTurn) error {
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
	})
	log.Fatal(err)
}
