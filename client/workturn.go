package client

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Why a question got no answer.
var (
	ErrExpired        = errors.New("nobody answered in time")
	ErrWithdrawn      = errors.New("the question was withdrawn")
	ErrUnknownOutcome = errors.New("the tool was running when the agent was cut off; whether it took effect is not known")
)

// WorkTurn is a worker's part in a conversation: the answer to one trigger. Its
// verbs are steps, numbered in the order of their use. A worker that takes up a
// turn which another one began uses the same verbs again from the start: steps
// that are in the log give what they gave then and are not done again. The order
// of steps must therefore be the same in every attempt, and verbs of one turn
// are used by one goroutine.
type WorkTurn struct {
	Session    chat.SessionID
	ID         chat.TurnID
	Agent      string
	Workstream string
	Trigger    chat.Event // what is answered

	launch *chat.WorkstreamLaunched // of its line; nil on the main line
	w      *worker
	end    context.CancelCauseFunc
	placed bool        // the server knows on this connection that it is ours; guarded by worker.mu
	lost   *time.Timer // runs while not placed; guarded by worker.mu
	ended  bool        // the server says that it has ended; guarded by worker.mu
	steps  int
	part   string // in front of the steps within a call

	mu      sync.Mutex
	attempt int
	said    map[string]chat.Event // by client id: what is in the log already
	open    map[chat.BlockID]chat.Block
	shown   map[chat.BlockID]int // bytes of a block that the server has, as far as is known
	answers map[string]chat.Event
	heard   []chat.UserMessage
	told    []chat.Event  // what else came in
	seen    []chat.Seq    // what has ever been in told
	paused  bool          // its workstream was told to pause
	news    chan struct{} // closed and replaced at every arrival
}

func newWorkTurn(w *worker, a *chat.Assignment, end context.CancelCauseFunc) *WorkTurn {
	t := &WorkTurn{
		Session: a.Session, ID: a.Turn, Agent: a.Agent, Workstream: a.Workstream, Trigger: a.Trigger, launch: a.Launch, w: w, end: end,
		said: map[string]chat.Event{}, answers: map[string]chat.Event{}, news: make(chan struct{}),
	}
	t.again(a)
	return t
}

// again takes in what the server knows of the turn, at its start and whenever
// the connection is back.
func (t *WorkTurn) again(a *chat.Assignment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempt, t.paused = a.Attempt, a.Paused
	t.open, t.shown = map[chat.BlockID]chat.Block{}, map[chat.BlockID]int{}
	for _, b := range a.Open {
		t.open[b.ID], t.shown[b.ID] = b, len(b.Text)
	}
	for _, e := range a.Events {
		if e.ClientID != "" && e.Actor.Kind == chat.Agent {
			t.said[e.ClientID] = e
		}
		t.arrive(e)
	}
}

func (t *WorkTurn) tell(e chat.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch b := e.Body.(type) {
	case chat.UserMessage:
		t.heard = append(t.heard, b)
	case chat.WorkstreamSteered:
		t.paused = b.Command == chat.SteerPause || t.paused && b.Command != chat.SteerResume
	}
	// A connection that is back tells all of it again.
	if strings.HasPrefix(e.Type, "workstream.") && !slices.ContainsFunc(t.seen, func(s chat.Seq) bool { return s == e.Seq }) {
		t.told, t.seen = append(t.told, e), append(t.seen, e.Seq)
	}
	t.arrive(e)
}

// arrive keeps an answer. The caller holds mu.
func (t *WorkTurn) arrive(e chat.Event) {
	if id := chat.AnswerOf(e.Body); id != "" {
		if _, twice := t.answers[id]; !twice {
			t.answers[id] = e
		}
	}
	close(t.news)
	t.news = make(chan struct{})
}

// Attempt counts the attempts at the turn; the first is 1.
func (t *WorkTurn) Attempt() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attempt
}

// Text is what the trigger says.
func (t *WorkTurn) Text() string {
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

// Heard takes the user messages that came in since it was last called, for
// agents that want to react before their turn is over.
func (t *WorkTurn) Heard() []chat.UserMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	heard := t.heard
	t.heard = nil
	return heard
}

// Behind reports whether the next step is in the log already: an agent with a
// pace of its own need not wait while it catches up.
func (t *WorkTurn) Behind() bool {
	_, ok := t.earlier(t.part + strconv.Itoa(t.steps+1))
	return ok
}

func (t *WorkTurn) step() string {
	t.steps++
	return t.part + strconv.Itoa(t.steps)
}

func (t *WorkTurn) key(step string) string { return string(t.ID) + "/" + step }

func (t *WorkTurn) earlier(step string) (chat.Event, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.said[t.key(step)]
	return e, ok
}

// append puts one body into the log as a step, once over all attempts.
func (t *WorkTurn) append(ctx context.Context, step string, body chat.Body) (chat.Event, error) {
	if e, ok := t.earlier(step); ok {
		return e, nil
	}
	d := chat.NewDraft(body).As(t.key(step))
	d.Turn, d.Workstream = t.ID, t.Workstream
	if err := d.Settle(); err != nil {
		return chat.Event{}, err
	}
	if err := t.gate(ctx); err != nil {
		return chat.Event{}, err
	}
	r, err := t.w.call(ctx, t, func() workFrame {
		d.Attempt = t.Attempt()
		wire, _, _ := drafts([]chat.Draft{d})
		events, _ := encode(wire)
		return workFrame{Op: "append", TurnID: t.ID, Events: events}
	})
	if err != nil {
		return chat.Event{}, err
	}
	var events []chat.Event
	if err := json.Unmarshal(r.events, &events); err != nil || len(events) != 1 {
		return chat.Event{}, chat.Errorf(chat.Internal, "the server did not return the event of a step").Because(err)
	}
	t.mu.Lock()
	t.said[t.key(step)] = events[0]
	t.mu.Unlock()
	return events[0], nil
}

// Append puts any body into the log as the next step.
func (t *WorkTurn) Append(ctx context.Context, body chat.Body) (chat.Event, error) {
	return t.append(ctx, t.step(), body)
}

func (t *WorkTurn) note(ctx context.Context, body chat.Body) error {
	_, err := t.Append(ctx, body)
	return err
}

// Say says a whole text at once, as the turn's answer.
func (t *WorkTurn) Say(ctx context.Context, text string) error {
	return t.note(ctx, chat.AgentText{Text: text, Final: true})
}

// Status tells what the agent is doing.
func (t *WorkTurn) Status(ctx context.Context, message, phase string) error {
	return t.note(ctx, chat.AgentStatus{Message: message, Phase: phase})
}

// Plan shows the whole plan anew.
func (t *WorkTurn) Plan(ctx context.Context, plan chat.AgentPlan) error { return t.note(ctx, plan) }

// Usage reports tokens used since the last report.
func (t *WorkTurn) Usage(ctx context.Context, u chat.AgentUsage) error { return t.note(ctx, u) }

// Artifact publishes something the agent made; large files are uploaded first
// with Client.Upload.
func (t *WorkTurn) Artifact(ctx context.Context, a chat.AgentArtifact) error { return t.note(ctx, a) }

// Ask asks a person and waits for the answer, over broken connections and
// restarts if need be. A notification is shown and not waited for.
func (t *WorkTurn) Ask(ctx context.Context, q chat.AgentInputRequest) (chat.UserInputResponse, error) {
	var answer chat.UserInputResponse
	e, err := t.Append(ctx, q)
	if err != nil || q.InputType == chat.InputNotification {
		return answer, err
	}
	body, err := t.answer(ctx, &e)
	answer, _ = body.(chat.UserInputResponse)
	return answer, err
}

// Approve asks a person to approve calls and waits for the decisions, one per
// call in their order.
func (t *WorkTurn) Approve(ctx context.Context, q chat.AgentApprovalRequest) ([]chat.Decision, error) {
	e, err := t.Append(ctx, q)
	if err != nil {
		return nil, err
	}
	body, err := t.answer(ctx, &e)
	answer, _ := body.(chat.UserApprovalResponse)
	return answer.Decisions, err
}

// Permit asks a person to grant scopes and waits for the decision.
func (t *WorkTurn) Permit(ctx context.Context, q chat.AgentPermissionRequest) (chat.UserPermissionResponse, error) {
	var answer chat.UserPermissionResponse
	e, err := t.Append(ctx, q)
	if err != nil {
		return answer, err
	}
	body, err := t.answer(ctx, &e)
	answer, _ = body.(chat.UserPermissionResponse)
	return answer, err
}

// answer waits for what ends the prompt that an event opened.
func (t *WorkTurn) answer(ctx context.Context, asked *chat.Event) (chat.Body, error) {
	p, ok := chat.AsPrompt(asked)
	if !ok {
		return nil, chat.Errorf(chat.Internal, "the server returned something else for the question")
	}
	for {
		t.mu.Lock()
		e, there := t.answers[p.RequestID]
		news := t.news
		t.mu.Unlock()
		if there {
			if b, closed := e.Body.(chat.PromptClosed); closed {
				if b.Reason == chat.Expired {
					return nil, ErrExpired
				}
				return nil, ErrWithdrawn
			}
			return e.Body, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Call uses a tool: the call is in the log before run starts, its result or
// error after. A call that has a result is not run again. One that was cut off
// is run again only if it is repeatable; otherwise it becomes a tool error and
// ErrUnknownOutcome.
func (t *WorkTurn) Call(ctx context.Context, tool string, params json.RawMessage, repeatable bool, run func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	step := t.step()
	end := step + "-end"
	_, again := t.earlier(step)
	began, err := t.append(ctx, step, chat.AgentToolCall{
		CallID: "c" + strings.TrimPrefix(string(t.ID), chat.TurnPrefix) + "-" + step, Tool: tool, Params: params, Repeatable: repeatable,
	})
	if err != nil {
		return nil, err
	}
	c, _ := began.Body.(chat.AgentToolCall)
	if e, ok := t.earlier(end); ok {
		switch b := e.Body.(type) {
		case chat.AgentToolResult:
			return b.Result, nil
		case chat.AgentToolError:
			return nil, errors.New(b.Error)
		}
	}
	if again && !c.Repeatable {
		_, err := t.append(ctx, end, chat.AgentToolError{CallID: c.CallID, Tool: tool, Error: ErrUnknownOutcome.Error(), Code: chat.UnknownOutcome})
		return nil, errors.Join(ErrUnknownOutcome, err)
	}
	// Verbs within the call are steps of it: a call that has its result is not
	// run again, and the steps behind it keep their numbers.
	part, steps := t.part, t.steps
	t.part, t.steps = step+".", 0
	result, err := run(ctx)
	t.part, t.steps = part, steps
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		if _, failed := t.append(ctx, end, chat.AgentToolError{CallID: c.CallID, Tool: tool, Error: err.Error()}); failed != nil {
			return nil, failed
		}
		return nil, err
	}
	_, err = t.append(ctx, end, chat.AgentToolResult{CallID: c.CallID, Tool: tool, Result: result})
	return result, err
}
