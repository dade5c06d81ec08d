package agent

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// ErrInterrupted is what an agent returns that cannot go on with a turn.
var ErrInterrupted = errors.New("the agent cannot go on")

// Turn is an agent's part in a conversation: the answer to one trigger. Its
// verbs are steps, numbered in the order of their use; a step that an earlier
// attempt finished gives what it gave then.
type Turn struct {
	Agent      string
	Workstream string
	Started    chat.Event // turn.started
	Trigger    chat.Event // what is answered

	id        chat.TurnID
	session   chat.SessionID
	workspace string
	sessions  sessions
	store     StoreFunc
	caller    chat.Caller
	box       *mailbox

	launch  *chat.WorkstreamLaunched // of the line; nil on the main line
	*memory                          // shared by the parts of a turn
	part    string                   // the name of this part with a dot behind it; "" is the whole
	steps   int                      // of this part; guarded by mu
}

// memory is what is known of a turn's earlier attempts.
type memory struct {
	mu      sync.Mutex
	attempt int
	past    []chat.Event          // the turn's events of earlier attempts
	said    map[string]chat.Event // of those, by client id, the agent's own
	open    []chat.Block          // what earlier attempts were writing
	heard   chat.Seq              // the last turn.input of earlier attempts that was handed out again
	about   map[chat.Seq]string   // of what those took in, the news of children
	awaited map[string]bool       // children whose news Await has taken
}

// turn reads what there is of a turn.
func (r *Runner) turn(ctx context.Context, u *run) (*Turn, error) {
	t := &Turn{
		Agent: u.agent, Workstream: u.line.workstream, id: u.ref.Turn, session: u.ref.Session,
		sessions: r.sessions, store: r.opt.Store, box: &u.box, memory: &memory{attempt: u.ref.Attempt},
		caller: chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: u.agent}, Scopes: []chat.Scope{chat.ScopeAgent, chat.ScopeAdmin}, AllWorkspaces: true},
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if t.Trigger, err = t.told(ctx, u, u.trigger); err != nil {
		return nil, err
	}
	if t.Started, err = t.told(ctx, u, u.started); err != nil {
		return nil, err
	}
	sess, err := r.sessions.Get(ctx, t.caller, t.session)
	if err != nil {
		return nil, err
	}
	t.workspace = sess.Workspace
	if err := t.place(ctx); err != nil {
		return nil, err
	}
	if !u.resumed {
		return t, nil
	}
	return t, t.recall(ctx)
}

// recall reads what earlier attempts left.
func (t *Turn) recall(ctx context.Context) error {
	var past []chat.Event
	var taken []chat.Seq
	said, spoken := map[string]chat.Event{}, map[chat.Seq]chat.Event{}
	err := t.Log(ctx, t.Started.Seq, func(e chat.Event) {
		if _, ok := e.Body.(chat.UserMessage); ok || strings.HasPrefix(e.Type, "workstream.") {
			spoken[e.Seq] = e
		}
		if e.Turn != t.id {
			return
		}
		past = append(past, e)
		if e.ClientID != "" && e.Actor.Same(t.caller.Actor) {
			said[e.ClientID] = e
		}
		if chat.AnswerOf(e.Body) != "" {
			t.box.put(e)
		}
		if b, ok := e.Body.(chat.TurnInput); ok {
			taken = append(taken, b.Sequences...)
		}
	})
	if err != nil {
		return err
	}
	about := map[chat.Seq]string{}
	for _, seq := range taken {
		e, ok := spoken[seq]
		if !ok { // it waited before the turn began
			if e, err = t.event(ctx, seq); err != nil {
				return err
			}
		}
		t.box.put(e)
		about[seq] = chat.ChildOf(e.Body)
	}
	open, err := t.sessions.Blocks(ctx, t.caller, t.session)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(slices.Clone(open), func(b chat.Block) bool { return b.Turn != t.id })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.past, t.said, t.open, t.about = past, said, open, about
	return nil
}

// Ref names the turn in its latest attempt.
func (t *Turn) Ref() chat.TurnRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	return chat.TurnRef{Session: t.session, Turn: t.id, Attempt: t.attempt}
}

// again begins a new attempt, because who answered is gone; crash says whether that counts against the turn.
func (t *Turn) again(ctx context.Context, reason string, crash bool) error {
	next, ok, err := t.sessions.ResumeTurn(ctx, t.Ref(), reason, crash)
	if err != nil {
		return err
	}
	if !ok {
		return chat.Errorf(chat.Conflict, "the turn was given up")
	}
	t.mu.Lock()
	t.attempt = next.Attempt
	t.mu.Unlock()
	return t.recall(ctx)
}

// Text is what the trigger says.
func (t *Turn) Text() string {
	switch b := t.Trigger.Body.(type) {
	case chat.UserMessage:
		return b.PlainText()
	case chat.WorkstreamLaunched:
		return b.Task
	case chat.WorkstreamMessage:
		return b.Text
	default:
		return chat.WorkstreamNews(b)
	}
}

// ClientTools lists the tools that whoever sent the trigger runs. A call of one is
// asked for with Approve, and marked so; see chat.ApprovalCall.Client.
func (t *Turn) ClientTools() []chat.ClientTool {
	if b, ok := t.Trigger.Body.(chat.UserMessage); ok {
		return b.ClientTools()
	}
	return nil
}

// Resumed reports whether an earlier attempt at the turn was cut off.
func (t *Turn) Resumed() bool { return t.Ref().Attempt > 1 }

// Past returns the turn's events that earlier attempts left in the log.
func (t *Turn) Past() []chat.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.past
}

// Open returns the blocks that an earlier attempt was writing when it was cut
// off, in the order in which they were begun, with what was shown of them. An
// agent that can go on from there does so with Stream or Think and the same
// text; otherwise it calls Abandon.
func (t *Turn) Open() []chat.Block {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.open)
}

// Abandon closes a block of an earlier attempt with exactly what was shown.
func (t *Turn) Abandon(ctx context.Context, b chat.Block) error {
	var body chat.Body = chat.AgentText{Block: b.ID, Text: b.Text, Partial: true}
	if b.Kind == chat.ThinkingBlock {
		body = chat.AgentThinking{Block: b.ID, Text: b.Text, Partial: true}
	}
	if _, err := t.append(ctx, body, t.key("close-"+string(b.ID))); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(o chat.Block) bool { return o.ID == b.ID })
	return nil
}

// Log calls f for every event of the session from a sequence on.
func (t *Turn) Log(ctx context.Context, from chat.Seq, f func(chat.Event)) error {
	for e, err := range t.Events(ctx, chat.Range{After: max(from, 1) - 1}) {
		if err != nil {
			return err
		}
		f(e)
	}
	return nil
}

// State returns the session's state.
func (t *Turn) State(ctx context.Context) (*chat.State, error) {
	return t.sessions.State(ctx, t.caller, t.session)
}

// told is an event that came with the turn, or is read.
func (t *Turn) told(ctx context.Context, u *run, seq chat.Seq) (chat.Event, error) {
	for _, e := range u.begun {
		if e.Seq == seq {
			return e, nil
		}
	}
	return t.event(ctx, seq)
}

// event reads one event of the session.
func (t *Turn) event(ctx context.Context, seq chat.Seq) (chat.Event, error) {
	fact, err := t.sessions.Event(ctx, t.caller, t.session, seq)
	if err != nil {
		return chat.Event{}, err
	}
	return fact.Event()
}

// step names the next step.
func (t *Turn) step() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	return t.part + strconv.Itoa(t.steps)
}

// key is the idempotency key of a step.
func (t *Turn) key(step string) string { return string(t.id) + "/" + step }

// stepOf returns the number of the step whose key that is, 0 for other keys.
func (t *Turn) stepOf(key string) int {
	rest, ok := strings.CutPrefix(key, string(t.id)+"/")
	if !ok {
		return 0
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, _ := strconv.Atoi(rest[:end]) // no digits are no step
	return n
}

// earlier returns what a step put into the log in an earlier attempt.
func (t *Turn) earlier(key string) (chat.Event, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.said[key]
	return e, ok
}

// append puts one body into the log under a key, once over all attempts.
func (t *Turn) append(ctx context.Context, body chat.Body, key string) (chat.Event, error) {
	if e, ok := t.earlier(key); ok {
		if e.Type != body.Type() {
			return chat.Event{}, chat.Errorf(chat.Conflict,
				"the agent does not repeat itself: where it says %s now, it said %s before it was cut off", body.Type(), e.Type)
		}
		return e, nil
	}
	if err := t.box.gate(ctx); err != nil {
		return chat.Event{}, err
	}
	ref := t.Ref()
	d := chat.NewDraft(body).As(key)
	d.Turn, d.Attempt, d.Workstream = ref.Turn, ref.Attempt, t.Workstream
	evs, err := t.sessions.Append(ctx, t.caller, ref.Session, []chat.Draft{d})
	if err != nil {
		return chat.Event{}, err
	}
	return evs[0], nil
}

func (t *Turn) note(ctx context.Context, step string, body chat.Body) error {
	_, err := t.append(ctx, body, t.key(step))
	return err
}
