package agentpool

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// remoteID names a worker that is connected to another node.
type remoteID struct {
	node   string
	worker uint64
}

// remoteWorker is a worker that is connected to another node, as the owner of a session sees it. Its methods send messages to that
// node. All fields except the first two are guarded by Pool.mu.
type remoteWorker struct {
	pool *Pool
	id   remoteID

	free  int       // slots that the worker's node said are free
	given int       // turns of this node that it had counted then
	heard time.Time // when it said so
}

// turnMessage is a message between the owner of a turn and the node of its worker.
type turnMessage struct {
	Op      string       `json:"op"` // give, tell, stop, ended, or from the worker's node: finish
	Worker  uint64       `json:"worker"`
	Turn    chat.TurnRef `json:"turn"`
	Agent   string       `json:"agent,omitempty"`
	Line    string       `json:"line,omitempty"`
	Started chat.Seq     `json:"started,omitempty"`
	Trigger chat.Seq     `json:"trigger,omitempty"`
	Event   chat.Seq     `json:"event,omitempty"` // of tell
	Owner   string       `json:"owner,omitempty"` // the node that sends it, or for finish the worker's node
	Epoch   uint64       `json:"epoch,omitempty"`
	Pos     uint64       `json:"pos,omitempty"` // how far the owner has applied the log; the message is about what stands before
	Failed  bool         `json:"failed,omitempty"`
	Code    chat.Code    `json:"code,omitempty"`
	Cause   string       `json:"cause,omitempty"`
}

// The answers of a worker's node to give.
const (
	answerTaken = "taken"
	answerFull  = "full" // the slots are used
	answerGone  = "gone" // the worker is not connected any more; also of tell and stop
)

// newRemote adds a registration for a worker of another node. The caller holds mu.
func (p *Pool) newRemote(id remoteID, k groupKey) *registration {
	if len(p.remotes) >= maxRemotes {
		return nil
	}
	w := &remoteWorker{pool: p, id: id}
	r := &registration{pool: p, key: k, worker: w, remote: w}
	p.remotes[id] = r
	return r
}

// maxRemotes bounds the workers of other nodes. This node gives no turns to more.
const maxRemotes = 10_000

// Give sends a turn to the worker's node. The node reads the events from its own copy of the session.
func (w *remoteWorker) Give(a chat.Assignment) {
	w.send(&turnMessage{
		Op: "give", Turn: a.TurnRef, Agent: a.Agent, Line: a.Workstream, Started: a.Started.Seq, Trigger: a.Trigger.Seq,
	})
}

// Tell sends the number of an event that concerns a turn.
func (w *remoteWorker) Tell(turn chat.TurnID, e chat.Event) {
	w.send(&turnMessage{Op: "tell", Turn: chat.TurnRef{Session: e.Session, Turn: turn}, Event: e.Seq})
}

// Stop tells the worker to end a turn.
func (w *remoteWorker) Stop(turn chat.TurnID) {
	w.send(&turnMessage{Op: "stop", Turn: chat.TurnRef{Turn: turn}})
}

// Ended tells the worker that a turn has ended in the log.
func (w *remoteWorker) Ended(turn chat.TurnID) {
	w.send(&turnMessage{Op: "ended", Turn: chat.TurnRef{Turn: turn}})
}

// send queues a message. The caller holds Pool.mu.
func (w *remoteWorker) send(m *turnMessage) {
	p := w.pool
	m.Worker, m.Owner, m.Pos = w.id.worker, p.nodes.Name(), p.nodes.Position(m.Turn.Turn)
	_, m.Epoch = p.nodes.Owner(m.Turn.Turn)
	p.out.add(w, m)
}

// outbox has the messages to other nodes, in order. When it is full, the workers of further messages are removed. They are added
// again with the next message of their node about them, and then get their turns again.
type outbox struct {
	mu      sync.Mutex
	queue   []outgoing
	sending bool
}

type outgoing struct {
	to *remoteWorker
	m  *turnMessage
}

const (
	maxOutbox = 20_000
	maxAsked  = 256 // messages whose answer is awaited at once
)

// add queues a message and begins to send, unless that is going on. The caller holds Pool.mu.
func (o *outbox) add(w *remoteWorker, m *turnMessage) {
	o.mu.Lock()
	full := len(o.queue) >= maxOutbox
	if !full {
		o.queue = append(o.queue, outgoing{w, m})
	}
	begin := !o.sending
	o.sending = true
	o.mu.Unlock()
	if begin {
		go o.send(w.pool)
	}
	if full {
		go w.pool.lose(w)
	}
}

// takeFirst removes the first element of a queue. ok is false if the queue is empty; then its memory is released.
func takeFirst[T any](queue *[]T) (first T, ok bool) {
	if len(*queue) == 0 {
		*queue = nil
		return first, false
	}
	first = (*queue)[0]
	*queue = (*queue)[1:]
	return first, true
}

// send sends what is queued, until the queue is empty.
func (o *outbox) send(p *Pool) {
	asked := make(chan struct{}, maxAsked)
	for {
		o.mu.Lock()
		next, ok := takeFirst(&o.queue)
		o.sending = ok
		o.mu.Unlock()
		if !ok {
			return
		}
		asked <- struct{}{}
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		b, err := json.Marshal(next.m)
		if err != nil {
			b = nil // has no values that cannot be written
		}
		wait := p.nodes.Ask(ctx, next.to.id.node, next.m.Turn.Turn, b)
		go func() {
			defer func() { <-asked }()
			defer cancel()
			answer, err := wait()
			switch {
			case chat.CodeOf(err) == chat.NotFound || string(answer) == answerGone:
				p.refused(next.to, next.m) // the worker has not got it
				p.lose(next.to)
			case err != nil:
				p.lose(next.to)
			case string(answer) == answerFull:
				p.refused(next.to, next.m)
			}
		}()
	}
}

// lose removes a worker of another node that cannot be reached.
func (p *Pool) lose(w *remoteWorker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.remotes[w.id]; r != nil && r.remote == w {
		p.leave(r)
	}
}

// refused takes a turn back that the worker has not got, because another owner has used the slot or the worker is gone.
func (p *Pool) refused(w *remoteWorker, m *turnMessage) {
	if m.Op != "give" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[w.id]
	if r == nil || r.remote != w {
		return
	}
	g := p.group(r.key)
	if j := g.byTurn[m.Turn.Turn]; j != nil && j.holder == r {
		j.holder = nil
		j.awaitingReconnect = j.given // its worker may return
		r.held--
		j.turn.in.Follow(nil)
		j.notify()
	}
	w.free, w.given = 0, r.held // until its node says otherwise
	p.assign(g)
}

// HandleRequest handles a message of another node about a turn.
func (p *Pool) HandleRequest(data []byte, reply func([]byte, error)) {
	m := &turnMessage{}
	if err := json.Unmarshal(data, m); err != nil {
		reply(nil, chat.Errorf(chat.Invalid, "a message of another version").Because(err))
		return
	}
	if m.Op == "finish" {
		p.finishRemote(m, reply)
		return
	}
	p.mu.Lock()
	answer := p.take(m)
	p.mu.Unlock()
	reply([]byte(answer), nil)
}

// finishRemote ends a turn that a worker of another node reports as ended. It replies when the end is in the log.
func (p *Pool) finishRemote(m *turnMessage, reply func([]byte, error)) {
	p.mu.Lock()
	r := p.remotes[remoteID{m.Owner, m.Worker}]
	p.mu.Unlock()
	if r == nil {
		reply([]byte(answerGone), nil)
		return
	}
	var cause error
	if m.Failed {
		cause = chat.Errorf(m.Code, "%s", m.Cause)
	}
	wait, err := r.Ending(m.Turn.Turn)
	if err == nil {
		err = r.Finish(m.Turn.Turn, cause)
	}
	if err != nil {
		reply(nil, err)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		reply(nil, wait(ctx))
	}()
}

// finishMessage is the report that a turn has ended.
func finishMessage(node string, r *registration, ref chat.TurnRef, cause error) *turnMessage {
	m := &turnMessage{Op: "finish", Worker: r.id, Owner: node, Turn: ref}
	if cause != nil {
		e := chat.Public(cause)
		m.Failed, m.Code, m.Cause = true, e.Code, text.Clip(e.Msg, maxSentText)
	}
	return m
}

// removeClaim removes a turn from those that a worker names.
func (r *registration) removeClaim(turn chat.TurnID) {
	r.claims = slices.DeleteFunc(r.claims, func(t chat.TurnID) bool { return t == turn })
}
