package natsprovider_test

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/natsprovider"
)

// A provider of the domain messaging, as a program of its own.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	conn, err := nats.Connect("nats://127.0.0.1:4222")
	if err != nil {
		log.Print(err)
		return
	}
	defer conn.Close()
	type message struct{ To, Text string }
	p := natsprovider.Provider{Domain: "messaging", Ops: map[string]natsprovider.Op{
		"post": natsprovider.Typed(func(_ context.Context, c natsprovider.Call, m message) (map[string]any, error) {
			if m.To == "" {
				return nil, chat.Errorf(chat.Invalid, "to whom?")
			}
			log.Printf("%s writes to %s", c.Session, m.To)
			return map[string]any{"ok": true}, nil
		}),
	}}
	if err := p.Serve(ctx, conn); err != nil {
		log.Print(err)
	}
}
