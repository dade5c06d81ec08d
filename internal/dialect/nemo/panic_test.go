package nemo

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/servertest"
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

// A panic gives back what the frames of its socket took of the caller's memory: those that wait behind it are not handled.
func TestAPanicGivesBackTheMemoryOfFrames(t *testing.T) {
	panics := make(chan any, 1)
	var good atomic.Bool
	w := newServer(t, setup{secured: true, change: func(o *Options) {
		o.Allow = func(chat.Caller, int) error {
			if !good.Load() {
				panic("not allowed")
			}
			return nil
		}
		o.Conns.Panicked = func(v any, _ []byte) { panics <- v }
	}})
	large := []byte(userMessage("c", "1", "chat_stream", strings.Repeat("x", 15<<20)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	token := []string{"Authorization", "Bearer " + servertest.TokenOf("alice")}
	for range 5 { // more than the server allows one caller together
		c := w.dial("", token...)
		if err := c.conn.Write(ctx, websocket.MessageText, large); err != nil {
			t.Fatal("the frame waits for memory: ", err)
		}
		<-panics
	}
	good.Store(true)
	c := w.dial("", token...)
	c.say("c", "2", strings.Repeat("y", 100<<10))
	c.readTurn()
}
