package dialecttest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/bus"
)

// A server that cannot answer at first answers the next request: the client goes on.
func TestX1GoesOnAfterAServerCouldNotAnswer(t *testing.T) {
	s, err := bus.Start(t.Context(), bus.Options{Addr: "127.0.0.1:0", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	replies := []string{`{"session_id":"s","error":{"code":503,"reason":"unavailable","description":"this node may be behind"}}`, `{"session_id":"s","stopped":true}`}
	if _, err := conn.Subscribe("x1.session.s.input", func(m *nats.Msg) {
		_ = m.Respond([]byte(replies[0])) // without it the client asks again
		if len(replies) > 1 {
			replies = replies[1:]
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	c, err := New("x1", Options{NATS: []string{s.Addr()}, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Stop(ctx, ""); err != nil {
		t.Fatal(err)
	}
}
