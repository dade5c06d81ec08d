package native

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// openWork serves a worker: an agent outside of the process that answers the turns of
// an agent name.
func (d *Dialect) openWork(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	name := r.PathValue("name")
	if !c.Has(chat.ScopeAgent) {
		return chat.Errorf(chat.Denied, "answering turns needs the scope agent")
	}
	if name == chat.NoAgent || d.opt.Builtin(name) {
		return chat.Errorf(chat.Conflict, "agent %q is answered by the server itself; choose another name", name)
	}
	if err := chat.CheckAgentName(name); err != nil {
		return err
	}
	if !c.MayServe(name) {
		return chat.Errorf(chat.Denied, "you cannot answer for agent %q: %s; the operator of this server can add agents=%s to the token", name, c.Serves(), name)
	}
	return failedHandshake(wire.ServeWS(w, r, wire.WSOptions{MaxMessage: maxFrame}, d.opt.Conns, func(ctx context.Context, conn *wire.Conn) error {
		worker := workerCaller(c, name)
		k := &work{socket: newSocket(d, conn, &worker), name: name, notEmpty: make(chan struct{}, 1)}
		k.paced = true // a refused frame would fail the agent's turn
		k.again = k.repeats
		return k.run(ctx)
	}))
}

// workerCaller is the caller for everything that a worker sends: the agent that it serves.
// Each frame must be for a turn that the worker holds; see [work.handle].
func workerCaller(c chat.Caller, name string) chat.Caller {
	c.Actor, c.Agents = chat.Actor{Kind: chat.Agent, ID: name}, []string{name}
	return c
}

// work is one worker's connection. Frames to the worker go through a queue, so that the
// runner does not wait for the network.
type work struct {
	*socket
	name         string
	registration core.Registration
	commands     []chat.AgentCommand
	cut          context.CancelCauseFunc // ends the connection

	mu       sync.Mutex
	queue    []serverFrame
	notEmpty chan struct{} // signals that the queue is not empty; capacity 1
}

func (w *work) run(ctx context.Context) error {
	ctx, w.cut = context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.tell(ctx) })
	err := w.socket.run(ctx, w)
	if w.registration != nil {
		w.registration.Leave() // its turns wait for the worker to reconnect
	}
	w.cut(nil)
	wg.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errQueueFull) || errors.Is(cause, errReconnect) {
		return &wire.CloseError{Code: wire.CloseTryLater, Reason: cause.Error(), Ours: true}
	}
	return err
}

// repeats closes the connection if a request failed because another node has taken the session over. The worker connects again,
// gets its turns in their current attempts and repeats what was not answered.
func (w *work) repeats(err error) bool {
	switch chat.ReasonOf(err) {
	case chat.OwnerChanged, chat.OutcomeUnknown, chat.AttemptOver:
		w.Reconnect()
		return true
	}
	return false
}

// Commands returns the commands that the worker announced.
func (w *work) Commands() []chat.AgentCommand { return w.commands }

// Reconnect closes the connection so that the worker connects again.
func (w *work) Reconnect() { w.cut(errReconnect) }

func (w *work) handle(ctx context.Context, f clientFrame) error {
	if w.registration == nil {
		if f.Op != "ready" {
			return chat.Errorf(chat.Invalid, "a worker first says {\"op\":\"ready\",\"slots\":1}")
		}
		if f.Slots < 0 || f.Slots > maxSlots {
			return chat.Errorf(chat.Invalid, "slots is between 1 and %d", maxSlots)
		}
		if err := chat.CheckAgentCommands(f.Commands); err != nil {
			return err
		}
		w.commands = f.Commands
		w.send(ctx, serverFrame{Op: "ok", ID: f.ID})
		w.registration = w.d.opt.Workers.Register(w.caller.In(), w.name, w, f.Slots, f.Turns)
		return nil
	}
	switch f.Op {
	case "append":
		return w.append(ctx, f)
	case "preview":
		return w.preview(ctx, f)
	case "done":
		return w.finish(ctx, f, nil)
	case "fail":
		cause := f.Error
		if cause == "" {
			cause = "the worker gave no reason"
		}
		return w.finish(ctx, f, chat.Errorf(chat.Internal, "%s", cause))
	case "ping":
		w.ping(ctx, f.ID)
		return nil
	case "launch_workstream", "message_workstream", "steer_workstream", "terminate_workstream", "workstream_status", "workstream_progress":
		return w.workstream(ctx, f)
	}
	return chat.Errorf(chat.Invalid, "op %q is not one of append, preview, done, fail, ping, %s, workstream_progress", text.Clip(f.Op, 80), workOps)
}

// finish ends a turn. It is answered when the end is in the log. Until then the worker holds the turn, and repeats
// the request after a restart of the server.
func (w *work) finish(ctx context.Context, f clientFrame, cause error) error {
	return w.later(ctx, func() (func(), error) {
		wait, err := w.registration.Ending(f.Turn)
		if err == nil {
			err = w.registration.Finish(f.Turn, cause)
		}
		return func() {
			switch err := wait(ctx); {
			case err == nil:
				w.send(ctx, serverFrame{Op: "ok", ID: f.ID, TurnID: f.Turn})
			case chat.CodeOf(err) == chat.Conflict:
				w.refuse(ctx, f.ID, "", err) // another node has given the turn to another worker
			case ctx.Err() == nil:
				w.Reconnect() // the worker repeats it on its next connection
			}
		}, err
	})
}

func (w *work) append(ctx context.Context, f clientFrame) error {
	ref, err := w.registration.Holds(f.Turn)
	if err != nil {
		return err
	}
	drafts, err := f.drafts()
	if err == nil {
		err = w.allow(ctx, moreRequests(len(drafts)))
	}
	if err != nil {
		return err
	}
	for i := range drafts {
		drafts[i].Turn, drafts[i].Attempt = ref.Turn, ref.Attempt
	}
	return w.socket.append(ctx, f.ID, ref.Session, drafts)
}

func (w *work) preview(ctx context.Context, f clientFrame) error {
	ref, err := w.registration.Holds(f.Turn)
	if err != nil {
		return err
	}
	pieces, err := f.pieces()
	if err != nil {
		return err
	}
	for i := range pieces {
		pieces[i].Turn, pieces[i].Attempt = ref.Turn, ref.Attempt
	}
	w.socket.preview(core.SessionPieces{Session: ref.Session, Pieces: pieces}, pieceAnswer{id: f.ID, turn: f.Turn})
	return nil
}

func (w *work) handlePiece(ctx context.Context, p pieceFrame) error {
	if w.registration == nil {
		return w.handle(ctx, clientFrame{Op: "preview"}) // refuses it
	}
	ref, err := w.registration.Holds(p.turn)
	if err != nil {
		return err
	}
	piece := p.piece.preview()
	piece.Turn, piece.Attempt = ref.Turn, ref.Attempt
	w.socket.preview(core.SessionPieces{Session: ref.Session, Pieces: []chat.Preview{piece}}, pieceAnswer{id: p.id, turn: p.turn})
	return nil
}

// Give sends a turn to the worker.
func (w *work) Give(a chat.Assignment) { w.push(serverFrame{Op: "turn", Turn: &a}) }

// Tell sends an event that concerns a turn.
func (w *work) Tell(turn chat.TurnID, e chat.Event) {
	w.push(serverFrame{Op: "event", TurnID: turn, Event: &e})
}

// Stop tells the worker to end a turn.
func (w *work) Stop(turn chat.TurnID) { w.push(serverFrame{Op: "stop", TurnID: turn}) }

// Ended tells the worker that a turn it named in ready has ended.
func (w *work) Ended(turn chat.TurnID) { w.push(serverFrame{Op: "ended", TurnID: turn}) }

// Limits of a worker's connection. When the queue of a worker that does not read is full,
// the connection is closed; the worker reconnects and gets its turns again.
const (
	maxSlots = 10000
	maxQueue = 2 * maxSlots
)

var (
	errQueueFull = errors.New("this worker does not read what it is told")
	errReconnect = errors.New("another node has taken a session over; connect again to go on with its turn")
)

func (w *work) push(f serverFrame) {
	w.mu.Lock()
	full := len(w.queue) >= maxQueue
	if !full {
		w.queue = append(w.queue, f)
	}
	w.mu.Unlock()
	if full {
		w.cut(errQueueFull)
		return
	}
	select {
	case w.notEmpty <- struct{}{}:
	default:
	}
}

// tell sends the queued frames.
func (w *work) tell(ctx context.Context) {
	for {
		select {
		case <-w.notEmpty:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		frames := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, f := range frames {
			w.send(ctx, f)
		}
	}
}
