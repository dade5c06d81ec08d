package httpagent

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// nemoFrame is a frame of the server.
type nemoFrame struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	ParentID     string          `json:"parent_id"`
	Conversation *string         `json:"conversation_id"`
	Status       string          `json:"status"`
	Content      json.RawMessage `json:"content"`
}

// nemoConn is the WebSocket of one turn. A goroutine reads it, so that the
// server's pings are answered while a person is asked.
type nemoConn struct {
	a      *Agent
	conn   *websocket.Conn
	frames chan nemoFrame  // closed when reading ends
	err    error           // why reading ended; set before frames is closed
	ctx    context.Context // ends when reading ends
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// dial connects. With reattach the server continues the run of the conversation
// that waits for an answer, if there is one.
func (a *Agent) dial(ctx context.Context, conversation string, reattach bool) (*nemoConn, error) {
	u, err := url.Parse(a.nemoURL("/websocket"))
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if err := a.authorize(header); err != nil {
		return nil, err
	}
	q := u.Query()
	if reattach {
		q.Set("conversation_id", conversation)
	}
	if header.Get("Authorization") == "" && header.Get("Cookie") == "" && header.Get("X-API-Key") == "" && q.Get("session") == "" {
		q.Set("session", conversation) // the server reattaches a run only in the session that started it
	}
	u.RawQuery = q.Encode()
	var conn *websocket.Conn
	err = a.retry(ctx, func() (delay time.Duration, err error) {
		dialCtx, cancel := context.WithTimeout(ctx, a.opt.Connect)
		defer cancel()
		var res *http.Response
		conn, res, err = websocket.Dial(dialCtx, u.String(), &websocket.DialOptions{HTTPClient: a.client, HTTPHeader: header})
		switch {
		case err == nil:
			return 0, nil
		case ctx.Err() != nil:
			return -1, context.Cause(ctx)
		case res != nil && res.StatusCode >= 300:
			return retryAfter(res), a.refusal(res)
		}
		return dialDelay(err), a.connectionError(nil, err)
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(min(a.opt.Max, 16<<20)) // of one frame
	c := &nemoConn{a: a, conn: conn, frames: make(chan nemoFrame, 256)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.wg.Go(c.read)
	return c, nil
}

func (c *nemoConn) read() {
	defer close(c.frames)
	defer c.cancel()
	left := c.a.opt.Max
	for {
		_, b, err := c.conn.Read(c.ctx)
		if err != nil {
			c.err = err
			return
		}
		if left -= int64(len(b)); left < 0 {
			c.err = c.a.tooLarge()
			return
		}
		var f nemoFrame
		if err := json.Unmarshal(b, &f); err != nil {
			c.err = c.a.unreadable("a frame that is no JSON", err)
			return
		}
		select {
		case c.frames <- f:
		case <-c.ctx.Done():
			c.err = context.Cause(c.ctx)
			return
		}
	}
}

func (c *nemoConn) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.a.opt.Connect)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, b)
}

// close ends the connection. NeMo has no stop message: a run without a socket
// ends when it next sends something.
func (c *nemoConn) close() {
	c.cancel()
	c.conn.CloseNow()
	c.wg.Wait()
}

// lost reports whether reading has ended. Buffered frames can still be read.
func (c *nemoConn) lost() bool { return c.ctx.Err() != nil }

// ping reports whether the server answers a ping.
func (c *nemoConn) ping(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.a.opt.Connect)
	defer cancel()
	return c.conn.Ping(ctx) == nil
}

// next waits for a frame.
func (c *nemoConn) next(ctx context.Context, timeout time.Duration) (nemoFrame, error) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case f, ok := <-c.frames:
		if ok {
			return f, nil
		}
		if ctx.Err() != nil {
			return f, context.Cause(ctx)
		}
		if _, own := errors.AsType[*chat.Error](c.err); own {
			return f, c.err
		}
		return f, c.a.broken(c.err)
	case <-t.C:
		return nemoFrame{}, c.a.connectionError(errIdle, nil)
	case <-ctx.Done():
		return nemoFrame{}, context.Cause(ctx)
	}
}
