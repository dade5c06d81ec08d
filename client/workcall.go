package client

import (
	"context"
	"errors"

	"github.com/coder/websocket"
)

// place returns the connection on which the turn is ours, when there is one.
func (w *worker) place(ctx context.Context, t *WorkTurn) (*websocket.Conn, error) {
	for {
		w.mu.Lock()
		conn, placed, ended, changed := w.conn, t.placed, t.ended, w.changed
		w.mu.Unlock()
		if ended {
			return nil, ErrTurnLost
		}
		if conn != nil && placed {
			return conn, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// call sends a frame and waits for the reply; over a broken connection it is
// sent again. make is called for each sending, because the attempt may change.
func (w *worker) call(ctx context.Context, t *WorkTurn, make func() workFrame) (reply, error) {
	for {
		conn, err := w.place(ctx, t)
		if err != nil {
			return reply{}, err
		}
		ch, err := w.post(ctx, conn, make())
		if err != nil {
			if ctx.Err() != nil {
				return reply{}, context.Cause(ctx)
			}
			// The reader notices too; until then place would give the same
			// broken connection.
			conn.CloseNow()
			w.drop(conn)
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

func (w *worker) drop(conn *websocket.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == conn {
		w.conn = nil
	}
}

// post sends a frame under a fresh id.
func (w *worker) post(ctx context.Context, conn *websocket.Conn, f workFrame) (<-chan reply, error) {
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
	// A write that is given up half-way ruins the connection for the other
	// turns, so a turn's end does not cut it.
	if err := write(context.WithoutCancel(ctx), conn, f); err != nil {
		w.mu.Lock()
		delete(w.calls, f.ID)
		w.mu.Unlock()
		return nil, err
	}
	return ch, nil
}
