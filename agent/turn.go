package agent

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// Turn is the answer of an agent to one trigger. Its calls are steps, numbered in the order of their use; a step that an
// earlier attempt completed returns the stored result. See the package documentation.
type Turn struct {
	Session    chat.SessionID
	ID         chat.TurnID
	Agent      string
	Workstream string     // "" on the main line
	Trigger    chat.Event // the event that is answered

	transport Transport
	inbox     *Inbox
	label     string
	launch    *chat.WorkstreamLaunched // nil on the main line

	*history        // shared by the parts of the turn
	part     string // the name of this part with a dot behind it; "" is the whole turn
	steps    int    // of this part; guarded by mu
}

// history has the events of earlier attempts.
type history struct {
	mu      sync.Mutex
	started chat.Event            // zero if it is not known yet
	past    []chat.Event          // the turn's events of earlier attempts
	stored  map[string]chat.Event // those of the agent itself, by client id
	inputs  map[chat.Seq]bool     // what earlier attempts received
	open    []chat.Block          // blocks that earlier attempts left open
	input   chat.Seq              // the last turn.input of earlier attempts that was returned again
	awaited map[string]bool       // children that Await returned; true if they have ended
}

// NewTurn returns the turn of an assignment. Transports use it.
func NewTurn(a chat.Assignment, in *Inbox, t Transport) *Turn {
	h := &history{started: a.Started, past: a.Events, open: slices.Clone(a.Open), stored: map[string]chat.Event{}, inputs: map[chat.Seq]bool{}, awaited: map[string]bool{}}
	for _, e := range a.Events {
		if e.ClientID != "" && e.Actor.Same(chat.Actor{Kind: chat.Agent, ID: a.Agent}) {
			h.stored[e.ClientID] = e
		}
		switch b := e.Body.(type) {
		case chat.TurnStarted:
			h.started = e
		case chat.TurnInput:
			for _, seq := range b.Sequences {
				h.inputs[seq] = true
			}
		}
	}
	label := strings.TrimPrefix(string(a.Turn), chat.TurnPrefix)
	if a.Started.Seq != 0 {
		label = strconv.FormatUint(uint64(a.Started.Seq), 10)
	}
	in.PutAnswers(a.Events)
	return &Turn{
		Session: a.Session, ID: a.Turn, Agent: a.Agent, Workstream: a.Workstream, Trigger: a.Trigger,
		transport: t, inbox: in, label: label, launch: a.Launch, history: h,
	}
}

// Ref names the turn in its current attempt.
func (t *Turn) Ref() chat.TurnRef { return t.transport.Ref() }

// Label is a short text that is unique among the turns of the session and the same in every attempt, for ids and names
// of files.
func (t *Turn) Label() string { return t.label }

// Resumed reports whether an earlier attempt at the turn was interrupted.
func (t *Turn) Resumed() bool { return t.Ref().Attempt > 1 }

// Text returns the text of the trigger.
func (t *Turn) Text() string {
	switch b := t.Trigger.Body.(type) {
	case chat.UserMessage:
		return b.PlainText()
	case chat.WorkstreamLaunched:
		return b.Task
	case chat.WorkstreamMessage:
		return b.Text
	default:
		return chat.WorkstreamText(b)
	}
}

// ClientTools lists the tools that the sender of the trigger executes. The agent requests a call of one with Approve;
// see chat.ApprovalCall.Client.
func (t *Turn) ClientTools() []chat.ClientTool {
	if b, ok := t.Trigger.Body.(chat.UserMessage); ok {
		return b.ClientTools()
	}
	return nil
}

// Started returns the event turn.started. A worker may have to read it from the server.
func (t *Turn) Started(ctx context.Context) (chat.Event, error) {
	t.mu.Lock()
	started := t.started
	t.mu.Unlock()
	if started.Seq != 0 {
		return started, nil
	}
	for e, err := range t.Events(ctx, chat.Range{Types: []string{"turn.started"}, Workstream: &t.Workstream, Desc: true, Limit: 100}) {
		if err != nil {
			return chat.Event{}, err
		}
		if e.Turn == t.ID {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.started = e
			return e, nil
		}
	}
	return chat.Event{}, chat.Errorf(chat.NotFound, "the log has no start of turn %s", t.ID)
}

// Past returns the turn's events that earlier attempts stored.
func (t *Turn) Past() []chat.Event { return t.past }

// Open returns the blocks that earlier attempts left open, in the order in which they were begun, with the text that was
// shown. To continue one, write the same text with Stream or Think at the same step; to close one, call Abandon.
func (t *Turn) Open() []chat.Block {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.open)
}

// Abandon closes a block of an earlier attempt with exactly the text that was shown.
func (t *Turn) Abandon(ctx context.Context, b chat.Block) error {
	if err := t.note(ctx, "close-"+string(b.ID), partial(b)); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(o chat.Block) bool { return o.ID == b.ID })
	return nil
}

// partial is the event of a block that is closed before its text was complete.
func partial(b chat.Block) chat.Body {
	if b.Kind == chat.ThinkingBlock {
		return chat.AgentThinking{Block: b.ID, Text: b.Text, Partial: true}
	}
	return chat.AgentText{Block: b.ID, Text: b.Text, Partial: true}
}

// Read returns stored events of the session; more reports that the range has further ones.
func (t *Turn) Read(ctx context.Context, r chat.Range) (facts []chat.Fact, more bool, err error) {
	return t.transport.Read(ctx, r)
}

// Events returns stored events of the session, page by page as [chat.Facts] reads them.
func (t *Turn) Events(ctx context.Context, r chat.Range) iter.Seq2[chat.Event, error] {
	return chat.Events(chat.Facts(r, func(r chat.Range) ([]chat.Fact, bool, error) { return t.Read(ctx, r) }))
}

// Log calls f for every stored event of the session from a sequence on.
func (t *Turn) Log(ctx context.Context, from chat.Seq, f func(chat.Event)) error {
	for e, err := range t.Events(ctx, chat.Range{After: max(from, 1) - 1}) {
		if err != nil {
			return err
		}
		f(e)
	}
	return nil
}

// State returns the state of the session. A worker computes it from the whole log.
func (t *Turn) State(ctx context.Context) (*chat.State, error) { return t.transport.State(ctx) }

// step names the next step.
func (t *Turn) step() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	return t.part + strconv.Itoa(t.steps)
}

// key is the idempotency key of a step.
func key(turn chat.TurnID, step string) string { return string(turn) + "/" + step }

func (t *Turn) key(step string) string { return key(t.ID, step) }

// stepNumber returns the number of the step that has a key, 0 for other keys.
func (t *Turn) stepNumber(key string) int {
	rest, ok := strings.CutPrefix(key, string(t.ID)+"/")
	if !ok {
		return 0
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, _ := strconv.Atoi(rest[:end]) // without digits it is not a step
	return n
}

// earlier returns what a step stored in an earlier attempt.
func (t *Turn) earlier(step string) (chat.Event, bool) {
	e, ok := t.stored[t.key(step)]
	return e, ok
}

// Replaying reports whether an earlier attempt completed the next step: an agent that paces its answer need not wait.
func (t *Turn) Replaying() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.earlier(t.part + strconv.Itoa(t.steps+1))
	return ok
}
