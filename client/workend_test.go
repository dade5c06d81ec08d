package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// script serves workers: each connection is handled by the next function, which
// gets the frame ready.
func script(t *testing.T, conns ...func(ctx context.Context, conn *websocket.Conn, ready workFrame)) *Client {
	next := make(chan func(context.Context, *websocket.Conn, workFrame), len(conns))
	for _, f := range conns {
		next <- f
	}
	close(next)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		f := <-next
		if f == nil {
			t.Error("the worker came back once more")
			conn.Close(websocket.StatusPolicyViolation, "enough")
			return
		}
		f(r.Context(), conn, hear(t, r.Context(), conn))
	}))
}

func hear(t *testing.T, ctx context.Context, conn *websocket.Conn) (f workFrame) {
	_, b, err := conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		t.Error(err)
	}
	return f
}

// A worker that missed the reply to done learns on its next connection that the
// turn has ended, and releases it at once.
func TestWorkReleasesATurnThatHasEnded(t *testing.T) {
	turn := newWorkServer(t, "hi").turn
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := script(t,
		func(ctx context.Context, conn *websocket.Conn, _ workFrame) {
			write(ctx, conn, workFrame{Op: "turn", Turn: &turn})
			if f := hear(t, ctx, conn); f.Op != "done" { // stored, and the connection breaks
				t.Errorf("received %s", f.Op)
			}
		},
		func(ctx context.Context, conn *websocket.Conn, ready workFrame) {
			if len(ready.Turns) != 1 || ready.Turns[0] != turn.Turn {
				t.Errorf("the worker holds %v", ready.Turns)
			}
			write(ctx, conn, workFrame{Op: "ended", TurnID: turn.Turn})
			conn.Close(websocket.StatusGoingAway, "")
		},
		func(_ context.Context, _ *websocket.Conn, ready workFrame) {
			if len(ready.Turns) != 0 {
				t.Errorf("the worker still holds %v", ready.Turns)
			}
			cancel()
		})
	err := c.Work(ctx, "a", WorkOptions{Grace: time.Hour}, agent.Func(func(context.Context, *agent.Turn) error { return nil }))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A call of a turn that has ended on the server returns ErrTurnLost.
func TestWorkStopsATurnThatEndedElsewhere(t *testing.T) {
	turn := newWorkServer(t, "hi").turn
	lost := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := script(t,
		func(ctx context.Context, conn *websocket.Conn, _ workFrame) {
			write(ctx, conn, workFrame{Op: "turn", Turn: &turn})
			hear(t, ctx, conn)
		},
		func(ctx context.Context, conn *websocket.Conn, _ workFrame) {
			write(ctx, conn, workFrame{Op: "ended", TurnID: turn.Turn})
			conn.Read(ctx)
		})
	done := make(chan error, 1)
	go func() {
		done <- c.Work(ctx, "a", WorkOptions{Grace: time.Hour}, agent.Func(func(ctx context.Context, t *agent.Turn) error {
			err := t.Status(ctx, "begun", "")
			lost <- err
			return err
		}))
	}()
	if err := <-lost; !errors.Is(err, agent.ErrTurnLost) {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A turn that is given to the worker just after its grace period has ended is answered from the start.
func TestWorkBeginsALostTurnAgain(t *testing.T) {
	turn := newWorkServer(t, "hi").turn
	returned, again := make(chan struct{}), make(chan struct{})
	c := script(t,
		func(ctx context.Context, conn *websocket.Conn, _ workFrame) {
			write(ctx, conn, workFrame{Op: "turn", Turn: &turn})
			hear(t, ctx, conn) // the status
		},
		func(ctx context.Context, conn *websocket.Conn, ready workFrame) {
			if len(ready.Turns) != 1 {
				t.Errorf("the worker has %v", ready.Turns)
			}
			<-again
			write(ctx, conn, workFrame{Op: "turn", Turn: &turn})
			if f := hear(t, ctx, conn); f.Op != "done" {
				t.Errorf("received %s", f.Op)
			} else {
				write(ctx, conn, workFrame{Op: "ok", ID: f.ID, TurnID: turn.Turn})
			}
			close(returned)
			conn.Read(ctx)
		})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	calls := 0
	go func() {
		done <- c.Work(ctx, "a", WorkOptions{Grace: 100 * time.Millisecond}, agent.Func(func(ctx context.Context, t *agent.Turn) error {
			if calls++; calls == 1 {
				_ = t.Status(ctx, "begun", "") // returns when the grace period has ended
				close(again)
				<-returned // this answer is slow to end
			}
			return nil
		}))
	}()
	<-returned
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Fatalf("the agent was called %d times", calls)
	}
}

// A worker whose credential has ended does not reconnect: it needs another one.
func TestWorkEndsWithItsCredential(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, conn *websocket.Conn){
		"bye": func(ctx context.Context, conn *websocket.Conn) {
			retry := false
			write(ctx, conn, workFrame{Op: "bye", Error: json.RawMessage(`{"code":"unauthenticated","message":"expired"}`), Retry: &retry})
			conn.Read(ctx)
		},
		"close code": func(_ context.Context, conn *websocket.Conn) { conn.Close(4401, "sign in again") },
	} {
		t.Run(name, func(t *testing.T) {
			c := script(t, func(ctx context.Context, conn *websocket.Conn, _ workFrame) { end(ctx, conn) })
			if err := c.Work(t.Context(), "a", WorkOptions{}, agent.Func(answerWithEveryCall)); chat.CodeOf(err) != chat.Unauthenticated {
				t.Fatal(err)
			}
		})
	}
}

// A worker reconnects to a server that was shut down.
func TestWorkReconnectsAfterAShutdown(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := script(t,
		func(ctx context.Context, conn *websocket.Conn, _ workFrame) {
			retry := true
			write(ctx, conn, workFrame{Op: "bye", Error: json.RawMessage(`{"code":"unavailable","message":"restart"}`), Retry: &retry})
			conn.Read(ctx)
		},
		func(context.Context, *websocket.Conn, workFrame) { cancel() })
	if err := c.Work(ctx, "a", WorkOptions{}, agent.Func(answerWithEveryCall)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// The server may give a turn to the worker again while it refuses a report that the worker sent before. The worker has the turn then, and
// reports its end once more.
func TestWorkReportsAnEndAgainWhenTheTurnWasGivenAgain(t *testing.T) {
	turn := newWorkServer(t, "hi").turn
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	c := script(t, func(_ context.Context, conn *websocket.Conn, _ workFrame) {
		write(ctx, conn, workFrame{Op: "turn", Turn: &turn})
		f := hear(t, ctx, conn)
		again := turn
		again.Attempt++
		write(ctx, conn, workFrame{Op: "turn", Turn: &again})
		write(ctx, conn, workFrame{Op: "error", ID: f.ID, Error: json.RawMessage(`{"code":"conflict","message":"the turn is not yours"}`)})
		if f = hear(t, ctx, conn); f.Op != "done" {
			t.Errorf("received %q", f.Op)
		}
		write(ctx, conn, workFrame{Op: "ok", ID: f.ID, TurnID: turn.Turn})
		close(done)
		conn.Read(ctx)
	})
	go func() {
		select {
		case <-done:
		case <-ctx.Done():
		}
		cancel()
	}()
	err := c.Work(ctx, "a", WorkOptions{}, agent.Func(func(context.Context, *agent.Turn) error { return nil }))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A piece of text has no id, so its refusal has none either. It does not end the worker when the connection breaks after it.
func TestWorkGoesOnAfterARefusedPiece(t *testing.T) {
	turn := newWorkServer(t, "hi").turn
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := script(t,
		func(ctx context.Context, conn *websocket.Conn, _ workFrame) {
			write(ctx, conn, workFrame{Op: "turn", Turn: &turn})
			hear(t, ctx, conn) // the piece
			write(ctx, conn, workFrame{Op: "error", Error: json.RawMessage(`{"code":"conflict","message":"the turn is not yours"}`)})
		},
		func(context.Context, *websocket.Conn, workFrame) { cancel() })
	err := c.Work(ctx, "a", WorkOptions{}, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		_ = t.Stream(true).Write(ctx, "some words")
		<-ctx.Done()
		return ctx.Err()
	}))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
