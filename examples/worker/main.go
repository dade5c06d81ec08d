// Command worker is an agent outside of the server: it connects, claims the
// turns of an agent name and answers them word by word. Stop it in the middle of
// an answer and start it again: the answer continues where it stopped.
//
//	go run ./examples/worker --name echo
//	parley chat --agent echo
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/client"
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("PARLEY_URL"), client.DefaultURL), "address of the server")
	name := flag.String("name", "echo", "agent name whose turns are answered")
	pause := flag.Duration("pause", 100*time.Millisecond, "between two words")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *name, *pause); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, name string, pause time.Duration) error {
	c, err := client.New(client.Options{URL: url, Token: os.Getenv("PARLEY_TOKEN"), Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Work(ctx, name, client.WorkOptions{}, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		w := t.Stream(true)
		// The same words in every attempt: what was shown before is skipped.
		for i, word := range strings.Fields("You said: " + t.Text()) {
			if i > 0 {
				word = " " + word
			}
			if err := w.Write(ctx, word); err != nil {
				return err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return w.Close(ctx)
	}))
}
