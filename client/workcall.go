package client

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/sleep"
)

// lastCallTime is how long a call may take after the context of its turn has ended.
const lastCallTime = 2 * time.Second

// bounded returns a context for a call. It ends with ctx, when the turn is lost, or some time after the turn's context has
// ended. So a call with a context that does not end returns too.
func (t *workTurn) bounded(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() {
		cause := context.Cause(t.ctx)
		if errors.Is(cause, agent.ErrTurnLost) {
			cancel(cause)
			return
		}
		time.AfterFunc(lastCallTime, func() { cancel(cause) })
	})
	return ctx, func() { stop(); cancel(nil) }
}

// connection returns the connection on which the worker has the turn. It waits until there is one.
func (t *workTurn) connection(ctx context.Context) (*websocket.Conn, error) {
	w := t.w
	for {
		w.mu.Lock()
		conn, assigned, changed := w.conn, t.assigned, w.changed
		w.mu.Unlock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if conn != nil && assigned {
			return conn, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// call sends a frame and waits for the reply. It sends the frame again if the connection breaks, and some times if the server
// cannot store anything at the moment: nothing is stored twice.
func (t *workTurn) call(ctx context.Context, f workFrame) (reply, error) {
	ctx, done := t.bounded(ctx)
	defer done()
	f.TurnID = t.assignment.Turn
	for n := 1; ; n++ {
		r, err := t.exchange(ctx, f)
		if err == nil || ctx.Err() != nil || !temporary(err) || n > t.w.c.opt.Retries {
			return r, err
		}
		if sleep.For(ctx, max(t.w.c.opt.Backoff.pause(n), retryAfter(err))) != nil {
			return r, err
		}
	}
}

// exchange sends a frame, again if the connection breaks, and waits for the reply.
func (t *workTurn) exchange(ctx context.Context, f workFrame) (reply, error) {
	for {
		conn, err := t.connection(ctx)
		if err != nil {
			return reply{}, err
		}
		ch, err := t.w.send(ctx, conn, f)
		if err != nil {
			t.w.disconnect(conn)
			continue
		}
		select {
		case r := <-ch:
			if errors.Is(r.err, errOffline) {
				continue
			}
			return r, r.err
		case <-ctx.Done():
			return reply{}, context.Cause(ctx)
		}
	}
}

// disconnect closes a broken connection. The reader of the connection notices too; until then other calls would use it.
func (w *worker) disconnect(conn *websocket.Conn) {
	conn.CloseNow()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == conn {
		w.conn = nil
	}
}

// send sends a frame under a new id. The reply arrives on the channel.
func (w *worker) send(ctx context.Context, conn *websocket.Conn, f workFrame) (<-chan reply, error) {
	ch := make(chan reply, 1)
	w.mu.Lock()
	w.lastID++
	f.ID = w.lastID
	if w.conn != conn {
		w.mu.Unlock()
		ch <- reply{err: errOffline}
		return ch, nil
	}
	w.calls[f.ID] = ch
	w.mu.Unlock()
	// A cancelled write would break the connection for the other turns.
	if err := write(context.WithoutCancel(ctx), conn, f); err != nil {
		w.mu.Lock()
		delete(w.calls, f.ID)
		w.mu.Unlock()
		return nil, err
	}
	return ch, nil
}
