package native

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/wire"
)

// openWork serves a worker: an agent outside of the process that claims turns
// of a name and answers them.
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
	return d.serveWS(w, r, func(ctx context.Context, conn *wire.Conn) error {
		return (&work{
			socket: socket{d: d, conn: conn, caller: workerCaller(c, name), slots: make(chan struct{}, maxInFlight)},
			name:   name, box: make(chan struct{}, 1),
		}).run(ctx)
	})
}

// workerCaller is who a worker speaks as: the agent it answers for, in the
// sessions that name that agent.
func workerCaller(c chat.Caller, name string) chat.Caller {
	return chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: name}, Workspace: c.Workspace, Scopes: c.Scopes}
}

// work is one worker's connection. What the server has to tell goes through a
// queue, because who tells it must not wait for the network.
type work struct {
	socket
	name string
	seat chat.Seat

	mu    sync.Mutex
	queue []serverFrame
	box   chan struct{} // the queue has something; room for one
}

func (w *work) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.group.Wait()
	defer cancel()
	w.group.Go(func() { w.beat(ctx) })
	w.group.Go(func() { w.tell(ctx) })
	defer func() {
		if w.seat != nil {
			w.seat.Leave()
		}
	}()
	for {
		msg, err := w.conn.Read(ctx)
		if err != nil {
			return ended(err)
		}
		var f clientFrame
		if err := checkJSON(msg); err == nil {
			err = json.Unmarshal(msg, &f)
			if err == nil {
				err = w.handle(ctx, f)
			} else {
				err = chat.Errorf(chat.Invalid, "the frame does not fit: %s", problem(err))
			}
			if err != nil {
				w.refuse(ctx, f.ID, "", err)
			}
		} else {
			w.refuse(ctx, nil, "", err)
		}
	}
}

func (w *work) handle(ctx context.Context, f clientFrame) error {
	if w.seat == nil {
		if f.Op != "ready" {
			return chat.Errorf(chat.Invalid, "a worker first says {\"op\":\"ready\",\"slots\":1}")
		}
		if f.Slots < 0 || f.Slots > 10000 {
			return chat.Errorf(chat.Invalid, "slots is between 1 and 10000")
		}
		w.send(ctx, serverFrame{Op: "ok", ID: f.ID})
		w.seat = w.d.opt.Workers.Join(w.name, w, f.Slots, f.Turns)
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
		now := w.d.now()
		w.send(ctx, serverFrame{Op: "ping", ID: f.ID, ServerNow: &now})
		return nil
	}
	return chat.Errorf(chat.Invalid, "op %q is not one of append, preview, done, fail, ping", f.Op)
}

func (w *work) finish(ctx context.Context, f clientFrame, cause error) error {
	if err := w.seat.Finish(f.Turn, cause); err != nil {
		return err
	}
	w.send(ctx, serverFrame{Op: "ok", ID: f.ID, TurnID: f.Turn})
	return nil
}

func (w *work) append(ctx context.Context, f clientFrame) error {
	ref, err := w.seat.Holds(f.Turn)
	if err != nil {
		return err
	}
	drafts, err := chat.ParseDrafts(f.Events)
	if err != nil {
		return err
	}
	for i := range drafts {
		drafts[i].Turn, drafts[i].Attempt = ref.Turn, ref.Attempt
	}
	wait, err := w.d.opt.Sessions.AppendLater(ctx, w.caller, ref.Session, drafts)
	if err != nil {
		return err
	}
	w.later(func() {
		events, err := wait()
		if err != nil {
			w.refuse(ctx, f.ID, ref.Session, err)
			return
		}
		w.sendEvents(ctx, f.ID, events)
	})
	return nil
}

func (w *work) preview(ctx context.Context, f clientFrame) error {
	ref, err := w.seat.Holds(f.Turn)
	if err != nil {
		return err
	}
	pieces := f.pieces()
	for i := range pieces {
		pieces[i].Turn, pieces[i].Attempt = ref.Turn, ref.Attempt
	}
	wait, err := w.d.opt.Sessions.PreviewLater(ctx, w.caller, ref.Session, pieces)
	if err != nil {
		return err
	}
	w.later(func() {
		if err := wait(); err != nil {
			w.refuse(ctx, f.ID, ref.Session, err)
		} else if len(f.ID) > 0 {
			w.send(ctx, serverFrame{Op: "ok", ID: f.ID, TurnID: f.Turn})
		}
	})
	return nil
}

// Give hands the worker a turn.
func (w *work) Give(a chat.Assignment) { w.push(serverFrame{Op: "turn", Turn: &a}) }

// Tell passes on what came in for a turn.
func (w *work) Tell(turn chat.TurnID, e chat.Event) {
	w.push(serverFrame{Op: "event", TurnID: turn, Event: &e})
}

// Stop tells the worker to end a turn.
func (w *work) Stop(turn chat.TurnID) { w.push(serverFrame{Op: "stop", TurnID: turn}) }

func (w *work) push(f serverFrame) {
	w.mu.Lock()
	w.queue = append(w.queue, f)
	w.mu.Unlock()
	select {
	case w.box <- struct{}{}:
	default:
	}
}

// tell sends what is queued. The queue is bounded by the turns a worker holds
// and what people say in them.
func (w *work) tell(ctx context.Context) {
	for {
		select {
		case <-w.box:
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
