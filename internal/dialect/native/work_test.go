package native

import (
	"context"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// slowLog is a worker's registration; the test decides when the end of a turn is stored.
type slowLog struct {
	finished chan chat.TurnID
	stored   chan struct{}
}

func (s *slowLog) Register(_, _ string, w core.Worker, _ int, holding []chat.TurnID) core.Registration {
	for _, turn := range holding {
		w.Ended(turn)
	}
	return s
}

func (s *slowLog) Holds(chat.TurnID) (chat.TurnRef, error) { return chat.TurnRef{}, nil }
func (s *slowLog) Leave()                                  {}
func (s *slowLog) Finish(turn chat.TurnID, _ error) error  { s.finished <- turn; return nil }

func (s *slowLog) Ending(chat.TurnID) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		select {
		case <-s.stored:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// TestDoneIsAnsweredWhenTheEndIsStored: a worker drops a turn when it has the answer to
// done, so the answer is sent after the end is stored.
func TestDoneIsAnsweredWhenTheEndIsStored(t *testing.T) {
	registration := &slowLog{finished: make(chan chat.TurnID, 2), stored: make(chan struct{})}
	w := newTestServer(t, func(o *Options) { o.Workers = registration })
	conn := w.dial("clerk", "/parley/v1/agents/clerk/work")
	defer conn.CloseNow()
	send := func(frame string) {
		t.Helper()
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	send(`{"op":"ready","id":1}`)
	w.readFrame(conn)
	send(`{"op":"done","id":2,"turn_id":"t-1"}`)
	send(`{"op":"fail","id":3,"turn_id":"t-2","error":"why"}`)
	<-registration.finished
	<-registration.finished
	// Frames are answered in order, unless they wait for something.
	send(`{"op":"nothing","id":4}`)
	if got := w.readFrame(conn); !strings.Contains(got, `"id":4`) {
		t.Fatalf("before the end is stored: %s", got)
	}
	close(registration.stored)
	for range 2 {
		if got := w.readFrame(conn); !strings.Contains(got, `"op":"ok"`) || !strings.Contains(got, `"turn_id":"t-`) {
			t.Fatalf("after it is stored: %s", got)
		}
	}
}

// unstored is a worker's registration whose turns end without an end in the log.
type unstored struct{ slowLog }

func (u *unstored) Register(string, string, core.Worker, int, []chat.TurnID) core.Registration {
	return u
}

func (u *unstored) Ending(chat.TurnID) (func(context.Context) error, error) {
	return func(context.Context) error { return chat.Errorf(chat.Unavailable, "the end of the turn is not stored") }, nil
}

// TestDoneWithoutAnEndIsRepeated: a worker that reported the end of a turn waits for the answer. If the end was not stored, the
// connection is closed, so that the worker reports it again on the next one.
func TestDoneWithoutAnEndIsRepeated(t *testing.T) {
	w := newTestServer(t, func(o *Options) { o.Workers = &unstored{slowLog{finished: make(chan chat.TurnID, 1)}} })
	conn := w.dial("clerk", "/parley/v1/agents/clerk/work")
	defer conn.CloseNow()
	for _, frame := range []string{`{"op":"ready","id":1}`, `{"op":"done","id":2,"turn_id":"t-1"}`} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	w.readFrame(conn)
	if _, b, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Fatalf("got %s, %v", b, err)
	}
}

// TestEndedTurnIsReported: a worker that names an ended turn gets an ended frame.
func TestEndedTurnIsReported(t *testing.T) {
	w := newTestServer(t, func(o *Options) { o.Workers = &slowLog{} })
	conn := w.dial("clerk", "/parley/v1/agents/clerk/work")
	defer conn.CloseNow()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"op":"ready","id":1,"turns":["t-1"]}`)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"op":"ok","id":1}`, `{"op":"ended","turn_id":"t-1"}`} {
		if got := w.readFrame(conn); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
