package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// WorkOptions configures a worker; the zero value has defaults.
type WorkOptions struct {
	Slots    int                 // turns answered at once; 0 means 4
	Grace    time.Duration       // how long a turn is kept after its connection broke; 0 means 60 s
	Commands []chat.AgentCommand // that the agent understands; clients offer them to people
}

// Work answers turns of an agent name with an agent until ctx ends or the server refuses the worker. The agent is called
// in a goroutine of its own for each turn. The context of a turn ends when the turn is stopped (agent.ErrStopped), when the
// server gave it to another worker or ended it (agent.ErrTurnLost), or with ctx. An error of the agent fails the turn,
// unless the context had ended.
//
// When the connection breaks, the worker connects again. The calls of the turns wait meanwhile and then continue. Work
// returns when the agent has returned from all turns.
func (c *Client) Work(ctx context.Context, name string, opt WorkOptions, a agent.Agent) error {
	if opt.Slots <= 0 {
		opt.Slots = 4
	}
	if opt.Grace <= 0 {
		opt.Grace = 60 * time.Second
	}
	w := &worker{
		c: c, name: name, opt: opt, agent: a,
		turns: map[chat.TurnID]*workTurn{}, calls: map[int64]chan reply{}, changed: make(chan struct{}),
	}
	// The connection stays until the agent has returned from all turns, because it may still store events.
	link, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	turns, end := context.WithCancelCause(ctx)
	defer end(nil)
	idle := context.AfterFunc(ctx, func() {
		w.wg.Wait()
		cut()
	})
	defer idle()

	retries := reconnects{client: c}
	for {
		used := c.node.Load()
		progress, err := w.connect(link, ctx, turns)
		w.offline()
		if ctx.Err() != nil {
			w.wg.Wait()
			return context.Cause(ctx)
		}
		d, again := retries.after(err, progress, used)
		if !again {
			end(err)
			w.wg.Wait()
			return err
		}
		c.opt.Logger.WarnContext(ctx, "the worker lost its connection and connects again", "agent", name, "pause", d, "err", err)
		sleep.For(ctx, d)
	}
}

// worker is one agent name's connection and its turns.
type worker struct {
	c     *Client
	name  string
	opt   WorkOptions
	agent agent.Agent
	wg    sync.WaitGroup // turns

	mu      sync.Mutex
	conn    *websocket.Conn // nil while there is none
	turns   map[chat.TurnID]*workTurn
	calls   map[int64]chan reply
	lastID  int64
	changed chan struct{} // closed and replaced when conn or the assignment of a turn changes
}

// workFrame is a message in either direction.
type workFrame struct {
	Op       string              `json:"op"`
	ID       int64               `json:"id,omitempty"`
	Slots    int                 `json:"slots,omitempty"`
	Turns    []chat.TurnID       `json:"turns,omitempty"`
	Commands []chat.AgentCommand `json:"commands,omitempty"`
	TurnID   chat.TurnID         `json:"turn_id,omitempty"`
	Events   json.RawMessage     `json:"events,omitempty"`
	Previews []piece             `json:"previews,omitempty"`
	Turn     *chat.Assignment    `json:"turn,omitempty"`
	Event    *chat.Event         `json:"event,omitempty"`
	Error    json.RawMessage     `json:"error,omitempty"` // a text to the server, an object from it
	Retry    *bool               `json:"retry,omitempty"` // of bye: the worker may connect again

	Launch      *chat.Launch             `json:"launch,omitempty"`
	Workstream  string                   `json:"workstream_id,omitempty"`
	Command     string                   `json:"command,omitempty"`
	Text        string                   `json:"text,omitempty"`
	Reason      string                   `json:"reason,omitempty"`
	Progress    *chat.WorkstreamProgress `json:"progress,omitempty"`
	ClientID    string                   `json:"client_id,omitempty"`
	Workstreams []chat.WorkstreamStatus  `json:"workstreams,omitempty"`
}

// reply is the server's reply to a call.
type reply struct {
	events      json.RawMessage
	workstreams []chat.WorkstreamStatus
	err         error
}

// errOffline means that the connection broke before the reply arrived.
var errOffline = errors.New("the connection broke")

// connect runs one connection until it ends. progress reports whether the server accepted the worker.
func (w *worker) connect(link, ctx, turns context.Context) (progress bool, err error) {
	header := http.Header{}
	w.c.authorize(header)
	dial, cancel := context.WithTimeout(ctx, w.c.opt.IdleTimeout)
	conn, res, err := websocket.Dial(dial, w.c.URL()+apiPath+"/agents/"+url.PathEscape(w.name)+"/work", &websocket.DialOptions{
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
	var failure error // an error frame without an id is why the server does not accept the worker; later ones are about pieces
	for {
		f, err := w.read(link, conn)
		if err != nil {
			if failure != nil {
				return progress, failure
			}
			return progress, err
		}
		if f.Op == "error" && f.ID == 0 {
			refused := frameError(f.Error)
			w.c.opt.Logger.WarnContext(ctx, "the server reports an error", "agent", w.name, "err", refused)
			if !progress {
				failure = refused
			}
			continue
		}
		progress, failure = true, nil
		if err := w.handle(ctx, turns, f); err != nil {
			return progress, err
		}
	}
}

// ready announces the worker and the turns it still has.
func (w *worker) ready(ctx context.Context, conn *websocket.Conn) error {
	w.mu.Lock()
	f := workFrame{Op: "ready", Slots: w.opt.Slots, Commands: w.opt.Commands}
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
	b, err := json.Marshal(v)
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
	readCtx, cancel := context.WithTimeout(ctx, w.c.opt.IdleTimeout)
	defer cancel()
	_, b, err := conn.Read(readCtx)
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

// handle handles one frame of the server.
func (w *worker) handle(ctx, turns context.Context, f workFrame) error {
	switch f.Op {
	case "turn":
		if f.Turn != nil {
			w.begin(ctx, turns, f.Turn)
		}
	case "event":
		if t := w.turn(f.TurnID); t != nil && f.Event != nil {
			t.receive(*f.Event)
		}
	case "stop":
		if t := w.turn(f.TurnID); t != nil {
			t.end(agent.ErrStopped)
		}
	case "ended":
		w.release(f.TurnID)
	case "ok":
		w.reply(f.ID, reply{events: f.Events, workstreams: f.Workstreams})
	case "error":
		w.reply(f.ID, reply{err: frameError(f.Error)})
	case "bye":
		e := errCut
		if f.Error != nil {
			e = frameError(f.Error)
		}
		return ended(e, f.Retry != nil && *f.Retry || f.Retry == nil && temporary(e))
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

func (w *worker) turn(id chat.TurnID) *workTurn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turns[id]
}

func (w *worker) reply(id int64, r reply) {
	w.mu.Lock()
	ch := w.calls[id]
	delete(w.calls, id)
	w.mu.Unlock()
	if ch != nil {
		ch <- r // has room for one
	}
}

// begin starts a turn, or continues one that the worker has.
func (w *worker) begin(ctx, turns context.Context, a *chat.Assignment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.turns[a.Turn]; t != nil && !errors.Is(context.Cause(t.ctx), agent.ErrTurnLost) {
		t.reassign(a)
		t.assigned = true
		t.given++
		t.stopTimer()
		w.notify()
		return
	}
	if ctx.Err() != nil {
		return // the worker is ending: another worker gets the turn
	}
	own, end := context.WithCancelCause(turns)
	t := &workTurn{w: w, ctx: own, end: end, assignment: *a, in: agent.NewInbox(), assigned: true}
	t.reassign(a)
	w.turns[a.Turn] = t
	w.wg.Go(func() {
		defer end(nil)
		err := agent.Run(own, w.agent, agent.NewTurn(*a, t.in, t), w.c.opt.Logger)
		w.finish(t, err)
	})
}

// finish reports to the server how the turn ended. A worker that is ending does not report turns that it did not
// complete: another worker gets them.
func (w *worker) finish(t *workTurn, err error) {
	f := workFrame{Op: "done", TurnID: t.assignment.Turn}
	cause := context.Cause(t.ctx)
	switch {
	case errors.Is(cause, agent.ErrTurnLost):
		w.forget(t)
		return
	case errors.Is(cause, agent.ErrStopped):
	case cause != nil && err != nil:
		w.forget(t)
		return
	case err != nil:
		t.storeFault(err)
		text, _ := json.Marshal(agent.ErrorText(err))
		f.Op, f.Error = "fail", text
	}
	// The server keeps the turn for this worker until it has stored the end.
	again, err := w.report(t, f)
	for again && t.ctx.Err() == nil {
		w.c.opt.Logger.Warn("the end of a turn cannot be reported; trying again", "agent", w.name, "turn", f.TurnID, "err", err)
		again, err = w.report(t, f)
	}
	if err != nil && !errors.Is(err, agent.ErrTurnLost) && !errors.Is(cause, agent.ErrStopped) {
		w.c.opt.Logger.Warn("the end of a turn could not be reported", "agent", w.name, "turn", f.TurnID, "err", err)
	}
	w.forget(t)
}

// report reports the end of a turn. again says that the worker still has the turn: the server could not store the end, or it gave the
// turn to the worker again while it refused the report.
func (w *worker) report(t *workTurn, f workFrame) (again bool, err error) {
	w.mu.Lock()
	given := t.given
	w.mu.Unlock()
	_, err = t.call(context.WithoutCancel(t.ctx), f)
	if chat.CodeOf(err) != chat.Conflict {
		return temporary(err), err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if again = t.given != given; !again {
		w.remove(t) // before the server can give it again
	}
	return again, err
}

// release removes a turn that has ended on the server. Its calls return.
func (w *worker) release(id chat.TurnID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.turns[id]; t != nil {
		t.stopTimer()
		delete(w.turns, id)
		t.end(agent.ErrTurnLost)
		w.notify()
	}
}

func (w *worker) forget(t *workTurn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(t)
}

// remove is like forget. The caller holds mu.
func (w *worker) remove(t *workTurn) {
	t.stopTimer()
	if id := t.assignment.Turn; w.turns[id] == t {
		delete(w.turns, id)
	}
}

// offline fails the calls that wait for a reply, and starts the timer of every turn.
func (w *worker) offline() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = nil
	for id, ch := range w.calls {
		delete(w.calls, id)
		ch <- reply{err: errOffline}
	}
	for _, t := range w.turns {
		if t.assigned {
			t.assigned = false
			w.startTimer(t)
		}
	}
	w.notify()
}

// startTimer gives a turn up when the worker does not get it again in time. The caller holds mu.
func (w *worker) startTimer(t *workTurn) {
	var lost *time.Timer
	lost = time.AfterFunc(w.opt.Grace, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.lost == lost { // else it was given to the worker again at this moment
			t.end(agent.ErrTurnLost)
		}
	})
	t.lost = lost
}

// notify wakes the calls that wait for a connection. The caller holds mu.
func (w *worker) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}
