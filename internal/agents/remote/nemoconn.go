package remote

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

// socket is one turn's connection. A goroutine reads it all the time, because
// the server's pings have to be answered while a person is asked.
type socket struct {
	a      *Agent
	conn   *websocket.Conn
	frames chan nemoFrame // closed at the end, when err is set
	gone   chan struct{}  // closed when nothing more will come
	err    error          // why; read it only then
	ctx    context.Context
	end    context.CancelCauseFunc
	wg     sync.WaitGroup
}

// dial connects for a conversation. With again the server gives us the run that
// waits there, if there is one.
func (a *Agent) dial(ctx context.Context, conversation string, again bool) (*socket, error) {
	u, err := url.Parse(a.nemoURL("/websocket"))
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if err := a.authorize(header); err != nil {
		return nil, err
	}
	q := u.Query()
	if again {
		q.Set("conversation_id", conversation)
	}
	if header.Get("Authorization") == "" && header.Get("Cookie") == "" && header.Get("X-API-Key") == "" && q.Get("session") == "" {
		q.Set("session", conversation) // a run is given back only to who began it
	}
	u.RawQuery = q.Encode()
	for try := 0; ; try++ {
		open, cancel := context.WithTimeout(ctx, a.opt.Connect)
		conn, res, err := websocket.Dial(open, u.String(), &websocket.DialOptions{HTTPClient: a.client, HTTPHeader: header})
		cancel()
		if err == nil {
			a.setHealth(nil)
			conn.SetReadLimit(min(a.opt.Max, 16<<20)) // of one frame
			s := &socket{a: a, conn: conn, frames: make(chan nemoFrame, 256), gone: make(chan struct{})}
			s.ctx, s.end = context.WithCancelCause(ctx)
			s.wg.Go(s.read)
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		pause := dialDelay(err)
		if res != nil && res.StatusCode >= 300 {
			pause, err = retryAfter(res), a.refusal(res)
		} else {
			err = a.problem(nil, err)
		}
		if pause < 0 || try >= a.opt.Retries {
			a.setHealth(err)
			return nil, err
		}
		if pause == 0 {
			pause = 500 * time.Millisecond << try
		}
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (s *socket) read() {
	defer close(s.frames)
	defer close(s.gone)
	left := s.a.opt.Max
	for {
		_, b, err := s.conn.Read(s.ctx)
		if err != nil {
			s.err = err
			return
		}
		if left -= int64(len(b)); left < 0 {
			s.err = s.a.tooLarge()
			return
		}
		var f nemoFrame
		if err := json.Unmarshal(b, &f); err != nil {
			s.err = s.a.unreadable("a frame that is no JSON", err)
			return
		}
		select {
		case s.frames <- f:
		case <-s.ctx.Done():
			s.err = context.Cause(s.ctx)
			return
		}
	}
}

func (s *socket) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.a.opt.Connect)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, b)
}

// close ends the connection. NeMo has no word for stop: a run whose socket is
// gone ends when it next wants to say something.
func (s *socket) close() {
	s.end(nil)
	s.conn.CloseNow()
	s.wg.Wait()
}

// lost reports whether the connection is gone.
func (s *socket) lost() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// alive asks the server for a sign of life.
func (s *socket) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.a.opt.Connect)
	defer cancel()
	return s.conn.Ping(ctx) == nil
}

// next waits for a frame, at most so long.
func (s *socket) next(ctx context.Context, patience time.Duration) (nemoFrame, error) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case f, ok := <-s.frames:
		if ok {
			return f, nil
		}
		if ctx.Err() != nil {
			return f, context.Cause(ctx)
		}
		if _, named := errors.AsType[*chat.Error](s.err); named {
			return f, s.err
		}
		return f, s.a.broken(s.err)
	case <-t.C:
		return nemoFrame{}, s.a.problem(errSilence, nil)
	case <-ctx.Done():
		return nemoFrame{}, context.Cause(ctx)
	}
}
