package nemo

import (
	"context"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// panicking is a session layer that panics when sessions are listed.
type panicking struct{ sessions }

func (panicking) List(context.Context, chat.Caller, core.Filter) (chat.SessionPage, error) {
	panic("sessions cannot be listed")
}

// A panic beside the read loop ends one socket, and not the server.
func TestAPanicEndsOneSocket(t *testing.T) {
	panics := make(chan any, 1)
	w := newServer(t, setup{change: func(o *Options) {
		o.Sessions = panicking{o.Sessions}
		o.Conns.Panicked = func(v any, _ []byte) { panics <- v }
	}})
	c := w.dial("?schema=aiq") // lists the sessions that it may have lost
	<-panics
	if _, _, err := c.conn.Read(t.Context()); err == nil {
		t.Error("the socket goes on")
	}
	w.dial("") // a client that lists nothing
}
