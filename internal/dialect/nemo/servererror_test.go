package nemo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/session"
)

// broken fails to store anything.
type broken struct{ *session.Sessions }

func (b broken) Append(context.Context, chat.Caller, chat.SessionID, []chat.Draft) ([]chat.Event, error) {
	return nil, errors.New("sector 7 cannot be written")
}

// A fault of the server is an unknown_error in the UI, the socket stays open, and only the log has the cause.
func TestServerErrorIsNotShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newServer(t, setup{change: func(o *Options) {
		o.Sessions = broken{o.Sessions.(*session.Sessions)}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}})
	c := w.dial("")
	for _, id := range []string{"m-1", "m-2"} {
		c.say("c1", id, "hi")
		frames := c.until(isEnd)
		if len(frames) != 3 || frames[0].Type != typeStep || frames[1].Content.Code != codeUnknown || frames[2].Parent != id {
			t.Fatalf("%s is answered by\n%s", id, c.log())
		}
	}
	if strings.Contains(c.log(), "sector") {
		t.Errorf("the client sees %s", c.log())
	}
	c.drop()
	w.Close()
	if !strings.Contains(log.String(), "sector 7") {
		t.Errorf("the log says %q", log.String())
	}
}
