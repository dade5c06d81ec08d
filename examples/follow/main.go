// Command follow starts a session with the demo agent, sends a message and prints the answer as it is written.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

func main() {
	ctx := context.Background()
	c, err := client.New(client.Options{URL: os.Getenv("PARLEY_URL"), Token: os.Getenv("PARLEY_TOKEN")})
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
	printed := map[chat.BlockID]int{} // bytes of each text
	// A lost connection or a restart of the server does not end the loop.
	for frame, err := range c.Watch(ctx, session.ID, client.WatchOptions{After: "0"}) {
		if err != nil {
			log.Fatal(err)
		}
		if p := frame.Preview; p != nil { // a piece of text, while it is being written
			fmt.Print(p.Text)
			printed[p.Block] = p.End
		}
		if frame.Event == nil {
			continue
		}
		switch b := frame.Event.Body.(type) {
		case chat.AgentText: // the whole text; print what no piece has shown
			fmt.Println(b.Text[printed[b.Block]:])
		case chat.TurnCompleted:
			return
		}
	}
}
