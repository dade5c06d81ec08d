package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// WorkOptions of a worker; the zero value works.
type WorkOptions struct {
	Slots int           // turns answered at once; 0 means 4
	Grace time.Duration // how long a turn is kept after its connection broke; 0 means 60 s
}

// What ends a turn's context, as its cause.
var (
	ErrStopped  = errors.New("somebody stopped the turn")
	ErrTurnLost = errors.New("the turn was given to another worker or has ended")
)

// Work answers turns of an agent name until ctx ends or the server refuses the
// worker. answer is called in a goroutine of its own for each turn. Its context
// ends when somebody stops the turn, when the turn is lost, or with ctx; an
// answer that returns an error fails the turn, unless its context had ended.
//
// A broken connection ends nothing: the verbs of the turns wait until it is back
// and go on. Work returns when all answers have returned.
func (c *Client) Work(ctx context.Context, name string, opt WorkOptions, answer func(ctx context.Context, t *WorkTurn) error) error {
	if opt.Slots <= 0 {
		opt.Slots = 4
	}
	if opt.Grace <= 0 {
		opt.Grace = 60 * time.Second
	}
	w := &worker{
		c: c, name: name, opt: opt, answer: answer,
		turns: map[chat.TurnID]*WorkTurn{}, calls: map[int64]chan reply{}, changed: make(chan struct{}),
	}
	// Answers that end because ctx did may still have something to say: the
	// connection outlives them.
	link, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	turns, end := context.WithCancelCause(ctx)
	defer end(nil)
	idle := context.AfterFunc(ctx, func() {
		w.wg.Wait()
		cut()
	})
	defer idle()

	faults := faults{backoff: c.opt.Backoff}
	for {
		progress, err := w.connect(link, ctx, turns)
		w.offline()
		if ctx.Err() != nil {
			w.wg.Wait()
			return context.Cause(ctx)
		}
		d, again := faults.after(err, progress)
		if !again {
			end(err)
			w.wg.Wait()
			return err
		}
		c.opt.Logger.WarnContext(ctx, "worker lost its connection, coming back", "agent", name, "pause", d, "err", err)
		wait(ctx, d)
	}
}

// worker is one agent name's connection and its turns.
type worker struct {
	c      *Client
	name   string
	opt    WorkOptions
	answer func(ctx context.Context, t *WorkTurn) error
	wg     sync.WaitGroup // answers

	mu      sync.Mutex
	conn    *websocket.Conn // nil while there is none
	turns   map[chat.TurnID]*WorkTurn
	calls   map[int64]chan reply
	lastID  int64
	changed chan struct{} // closed and replaced when conn or a turn's place changes
}

// frame is a message in either direction.
type workFrame struct {
	Op       string           `json:"op"`
	ID       int64            `json:"id,omitempty"`
	Slots    int              `json:"slots,omitempty"`
	Turns    []chat.TurnID    `json:"turns,omitempty"`
	TurnID   chat.TurnID      `json:"turn_id,omitempty"`
	Events   json.RawMessage  `json:"events,omitempty"`
	Previews []piece          `json:"previews,omitempty"`
	Turn     *chat.Assignment `json:"turn,omitempty"`
	Event    *chat.Event      `json:"event,omitempty"`
	Error    json.RawMessage  `json:"error,omitempty"` // a text to the server, an object from it
	Retry    *bool            `json:"retry,omitempty"` // of bye: coming back is of use

	Launch      *chat.Launch             `json:"launch,omitempty"`
	Workstream  string                   `json:"workstream_id,omitempty"`
	Command     string                   `json:"command,omitempty"`
	Text        string                   `json:"text,omitempty"`
	Reason      string                   `json:"reason,omitempty"`
	Progress    *chat.WorkstreamProgress `json:"progress,omitempty"`
	ClientID    string                   `json:"client_id,omitempty"`
	Workstreams []chat.WorkstreamStatus  `json:"workstreams,omitempty"`
}

// reply is the server's word on a call.
type reply struct {
	events      json.RawMessage
	workstreams []chat.WorkstreamStatus
	err         error
}

// errOffline says that the connection broke before the reply came.
var errOffline = errors.New("the connection broke")

// connect runs one connection to its end.
func (w *worker) connect(link, ctx, turns context.Context) (progress bool, err error) {
	header := http.Header{}
	w.c.authorize(header)
	dial, cancel := context.WithTimeout(ctx, w.c.opt.Silence)
	conn, res, err := websocket.Dial(dial, w.c.base+"/agents/"+url.PathEscape(w.name)+"/work", &websocket.DialOptions{
		HTTPClient: w.c.opt.HTTP, HTTPHeader: header,
	})
	cancel()
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode >= 300 {
			return false, refusal(res)
		}
		return false, w.c.broken(ctx, err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(64 << 20) // an assignment holds all events of its turn
	if err := w.ready(link, conn); err != nil {
		return false, w.c.broken(link, err)
	}
	var complaint error // about the connection as a whole
	for {
		f, err := w.read(link, conn)
		if err != nil {
			if complaint != nil {
				return progress, complaint
			}
			return progress, err
		}
		if f.Op == "error" && f.ID == 0 {
			complaint = frameError(f.Error)
			w.c.opt.Logger.WarnContext(ctx, "the server complains", "agent", w.name, "err", complaint)
			continue
		}
		progress, complaint = true, nil
		if err := w.take(ctx, turns, f); err != nil {
			return progress, err
		}
	}
}

// ready announces the worker and the turns it still holds.
func (w *worker) ready(ctx context.Context, conn *websocket.Conn) error {
	w.mu.Lock()
	f := workFrame{Op: "ready", Slots: w.opt.Slots}
	for id := range w.turns {
		f.Turns = append(f.Turns, id)
	}
	w.mu.Unlock()
	if err := write(ctx, conn, f); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
	w.notify()
	return nil
}

func write(ctx context.Context, conn *websocket.Conn, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, b)
}

// closeSignIn is the close code of a connection whose credential has ended.
const closeSignIn websocket.StatusCode = 4401

func (w *worker) read(ctx context.Context, conn *websocket.Conn) (f workFrame, err error) {
	patience, cancel := context.WithTimeout(ctx, w.c.opt.Silence)
	defer cancel()
	_, b, err := conn.Read(patience)
	if err != nil {
		if e, ok := errors.AsType[websocket.CloseError](err); ok {
			switch e.Code {
			case websocket.StatusPolicyViolation:
				return f, chat.Errorf(chat.Denied, "the server refused the worker: %s", e.Reason)
			case closeSignIn:
				return f, chat.Errorf(chat.Unauthenticated, "the worker's token has expired or was revoked: start it with another one")
			}
		}
		return f, errCut.Because(errors.Join(ErrUnreachable, err))
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, chat.Errorf(chat.Internal, "the server sent a frame that cannot be read").Because(err)
	}
	return f, nil
}

// take handles one frame of the server.
func (w *worker) take(ctx, turns context.Context, f workFrame) error {
	switch f.Op {
	case "turn":
		if f.Turn != nil {
			w.give(ctx, turns, f.Turn)
		}
	case "event":
		if t := w.turn(f.TurnID); t != nil && f.Event != nil {
			t.tell(*f.Event)
		}
	case "stop":
		if t := w.turn(f.TurnID); t != nil {
			t.end(ErrStopped)
		}
	case "ended":
		w.release(f.TurnID)
	case "ok":
		w.settle(f.ID, reply{events: f.Events, workstreams: f.Workstreams})
	case "error":
		w.settle(f.ID, reply{err: frameError(f.Error)})
	case "bye":
		e := errCut
		if f.Error != nil {
			e = frameError(f.Error)
		}
		return farewell(e, f.Retry != nil && *f.Retry || f.Retry == nil && passing(e))
	}
	return nil
}

func frameError(raw json.RawMessage) *chat.Error {
	var e wireError
	if json.Unmarshal(raw, &e) != nil || e.Code == "" {
		return chat.Errorf(chat.Internal, "the server refused without a reason that can be read")
	}
	return e.err()
}

func (w *worker) turn(id chat.TurnID) *WorkTurn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turns[id]
}

func (w *worker) settle(id int64, r reply) {
	w.mu.Lock()
	ch := w.calls[id]
	delete(w.calls, id)
	w.mu.Unlock()
	if ch != nil {
		ch <- r // has room for one
	}
}

// give begins a turn, or goes on with one that the worker holds.
func (w *worker) give(ctx, turns context.Context, a *chat.Assignment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.turns[a.Turn]; t != nil {
		t.again(a)
		t.placed = true
		if t.lost != nil {
			t.lost.Stop()
			t.lost = nil
		}
		w.notify()
		return
	}
	if ctx.Err() != nil {
		return // on the way out: another worker will have it
	}
	own, end := context.WithCancelCause(turns)
	t := newWorkTurn(w, a, end)
	t.placed = true
	w.turns[a.Turn] = t
	w.wg.Go(func() {
		defer end(nil)
		err := w.run(own, t)
		w.finish(own, t, err)
	})
}

// run calls the answer; a panic fails the turn and nothing else.
func (w *worker) run(ctx context.Context, t *WorkTurn) (err error) {
	defer func() {
		if v := recover(); v != nil {
			w.c.opt.Logger.Error("the agent panicked", "agent", w.name, "turn", t.ID, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("the agent panicked: %v", v)
		}
	}()
	return w.answer(ctx, t)
}

// finish tells the server how the turn ended. A worker that is on its way out
// says nothing about turns it did not finish: they go to another.
func (w *worker) finish(ctx context.Context, t *WorkTurn, err error) {
	f := workFrame{Op: "done", TurnID: t.ID}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrTurnLost):
		w.forget(t)
		return
	case errors.Is(cause, ErrStopped):
	case cause != nil && err != nil:
		w.forget(t)
		return
	case err != nil:
		text, _ := json.Marshal(err.Error())
		f.Op, f.Error = "fail", text
	}
	// The turn's context may have ended, or end now: a moment is left to say so.
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWord, cancel) })()
	if _, err := w.call(last, t, func() workFrame { return f }); err != nil && !errors.Is(err, ErrTurnLost) && !errors.Is(cause, ErrStopped) {
		w.c.opt.Logger.Warn("the end of a turn could not be told", "agent", w.name, "turn", t.ID, "err", err)
	}
	w.forget(t)
}

// release gives up a turn that has ended on the server: its verbs, and a report of its end, wait no longer.
func (w *worker) release(id chat.TurnID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.turns[id]; t != nil {
		if t.lost != nil {
			t.lost.Stop()
		}
		delete(w.turns, id)
		t.ended = true
		t.end(ErrTurnLost)
		w.notify()
	}
}

// lastWord is how long the end of a turn may take to be told when there is no
// time left.
const lastWord = 2 * time.Second

func (w *worker) forget(t *WorkTurn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.lost != nil {
		t.lost.Stop()
	}
	delete(w.turns, t.ID)
}

// offline fails what waits for a reply, and starts the clock of every turn.
func (w *worker) offline() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = nil
	for id, ch := range w.calls {
		delete(w.calls, id)
		ch <- reply{err: errOffline}
	}
	for _, t := range w.turns {
		if t.placed {
			t.placed = false
			t.lost = time.AfterFunc(w.opt.Grace, func() { t.end(ErrTurnLost) })
		}
	}
	w.notify()
}

// notify wakes who waits for a connection. The caller holds mu.
func (w *worker) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}
