package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// ErrInterrupted is what an agent returns that cannot go on with a turn.
var ErrInterrupted = errors.New("the agent cannot go on")

// ErrExpired says that nobody answered in time; ErrWithdrawn that the question
// was taken back.
var (
	ErrExpired   = errors.New("nobody answered in time")
	ErrWithdrawn = errors.New("the question was withdrawn")
)

// Turn is an agent's part in a conversation: the answer to one trigger. Its
// verbs are steps, numbered in the order of their use; a step that an earlier
// attempt finished gives what it gave then.
type Turn struct {
	Ref        chat.TurnRef
	Agent      string
	Workstream string
	Started    chat.Event // turn.started
	Trigger    chat.Event // what is answered

	sessions sessions
	store    StoreFunc
	caller   chat.Caller
	box      *mailbox
	steps    int

	mu   sync.Mutex
	said map[string]chat.Event // by client id: what earlier attempts put into the log
	past []chat.Event          // the turn's events of earlier attempts
	open map[chat.BlockID]chat.Block
}

// turn reads what there is of a turn.
func (r *Runner) turn(ctx context.Context, u *run) (*Turn, error) {
	t := &Turn{
		Ref: u.ref, Agent: u.agent, Workstream: u.line.workstream, sessions: r.sessions, store: r.opt.Store, box: &u.box,
		caller: chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: u.agent}, Scopes: []chat.Scope{chat.ScopeAgent, chat.ScopeAdmin}},
		said:   map[string]chat.Event{}, open: map[chat.BlockID]chat.Block{},
	}
	ctx = context.WithoutCancel(ctx)
	for seq, into := range map[chat.Seq]*chat.Event{u.trigger: &t.Trigger, u.started: &t.Started} {
		fact, err := r.sessions.Event(ctx, t.caller, u.ref.Session, seq)
		if err != nil {
			return nil, err
		}
		if *into, err = fact.Event(); err != nil {
			return nil, err
		}
	}
	if !u.resumed {
		return t, nil
	}
	return t, t.recall(ctx)
}

// recall reads what earlier attempts left.
func (t *Turn) recall(ctx context.Context) error {
	t.past = nil
	err := t.Log(ctx, t.Started.Seq, func(e chat.Event) {
		if e.Turn != t.Ref.Turn {
			return
		}
		t.past = append(t.past, e)
		if e.ClientID != "" && e.Actor.Same(t.caller.Actor) {
			t.said[e.ClientID] = e
		}
		if chat.AnswerOf(e.Body) != "" {
			t.box.put(e)
		}
	})
	if err != nil {
		return err
	}
	blocks, err := t.sessions.Blocks(ctx, t.caller, t.Ref.Session)
	t.open = map[chat.BlockID]chat.Block{}
	for _, b := range blocks {
		if b.Turn == t.Ref.Turn {
			t.open[b.ID] = b
		}
	}
	return err
}

// ref returns the turn in its latest attempt.
func (t *Turn) ref() chat.TurnRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Ref
}

// again begins a new attempt, because who answered is gone.
func (t *Turn) again(ctx context.Context, reason string) error {
	next, ok, err := t.sessions.ResumeTurn(ctx, t.Ref, reason, true)
	if err != nil {
		return err
	}
	if !ok {
		return chat.Errorf(chat.Conflict, "the turn was given up")
	}
	t.mu.Lock()
	t.Ref = next
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
	}
	return ""
}

// Resumed reports whether an earlier attempt at the turn was cut off.
func (t *Turn) Resumed() bool { return t.Ref.Attempt > 1 }

// Past returns the turn's events that earlier attempts left in the log.
func (t *Turn) Past() []chat.Event { return t.past }

// Open returns the blocks that an earlier attempt was writing when it was cut
// off, with what was shown of them. An agent that can go on from there does so
// with Writer and the same text; otherwise it calls Abandon.
func (t *Turn) Open() []chat.Block {
	t.mu.Lock()
	defer t.mu.Unlock()
	var blocks []chat.Block
	for _, b := range t.open {
		blocks = append(blocks, b)
	}
	return blocks
}

// Abandon closes a block of an earlier attempt with exactly what was shown.
func (t *Turn) Abandon(ctx context.Context, b chat.Block) error {
	var body chat.Body = chat.AgentText{Block: b.ID, Text: b.Text, Partial: true}
	if b.Kind == chat.ThinkingBlock {
		body = chat.AgentThinking{Block: b.ID, Text: b.Text, Partial: true}
	}
	_, err := t.append(ctx, body, string(t.Ref.Turn)+"/close-"+string(b.ID))
	if err == nil {
		t.mu.Lock()
		delete(t.open, b.ID)
		t.mu.Unlock()
	}
	return err
}

// Log calls f for every event of the session from a sequence on.
func (t *Turn) Log(ctx context.Context, from chat.Seq, f func(chat.Event)) error {
	for after := from - 1; ; {
		facts, more, err := t.sessions.Read(ctx, t.caller, t.Ref.Session, chat.Range{After: after, Limit: 1000})
		if err != nil {
			return err
		}
		for _, fact := range facts {
			e, err := fact.Event()
			if err != nil {
				return err
			}
			f(e)
			after = e.Seq
		}
		if !more || len(facts) == 0 {
			return nil
		}
	}
}

// State returns the session's state.
func (t *Turn) State(ctx context.Context) (*chat.State, error) {
	return t.sessions.State(ctx, t.caller, t.Ref.Session)
}

// step names the next step.
func (t *Turn) step() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	return strconv.Itoa(t.steps)
}

func (t *Turn) key(step string) string { return string(t.Ref.Turn) + "/" + step }

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
		return e, nil
	}
	d := chat.NewDraft(body).As(key)
	d.Turn, d.Attempt, d.Workstream = t.Ref.Turn, t.Ref.Attempt, t.Workstream
	evs, err := t.sessions.Append(ctx, t.caller, t.Ref.Session, []chat.Draft{d})
	if err != nil {
		return chat.Event{}, err
	}
	return evs[0], nil
}

func (t *Turn) note(ctx context.Context, step string, body chat.Body) error {
	_, err := t.append(ctx, body, t.key(step))
	return err
}

// Append puts any body into the log as the next step.
func (t *Turn) Append(ctx context.Context, body chat.Body) (chat.Event, error) {
	return t.append(ctx, body, t.key(t.step()))
}

// Say says a whole text at once.
func (t *Turn) Say(ctx context.Context, text string) error {
	return t.note(ctx, t.step(), chat.AgentText{Text: text, Final: true})
}

// Status, Plan, Usage, Artifact and Trouble are said as they are.

// Status tells what the agent is doing.
func (t *Turn) Status(ctx context.Context, message, phase string) error {
	return t.note(ctx, t.step(), chat.AgentStatus{Message: message, Phase: phase})
}

// Plan shows the whole plan anew.
func (t *Turn) Plan(ctx context.Context, plan chat.AgentPlan) error {
	return t.note(ctx, t.step(), plan)
}

// Usage reports tokens used since the last report.
func (t *Turn) Usage(ctx context.Context, u chat.AgentUsage) error {
	return t.note(ctx, t.step(), u)
}

// Artifact publishes something the agent made.
func (t *Turn) Artifact(ctx context.Context, a chat.AgentArtifact) error {
	return t.note(ctx, t.step(), a)
}

// File keeps a file that the agent made and publishes it as an artifact.
func (t *Turn) File(ctx context.Context, a chat.AgentArtifact, body io.Reader) error {
	step := t.step()
	if _, ok := t.earlier(t.key(step)); ok {
		return nil
	}
	if t.store == nil {
		return chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	size, err := t.store(ctx, t.Ref.Session, a.Path, a.MediaType, body)
	if err != nil {
		return err
	}
	a.Size = size
	return t.note(ctx, step, a)
}

// CallOptions say how a tool may be treated.
type CallOptions struct {
	CallID     string // made from the step when empty
	Repeatable bool   // may be run again when its outcome is not known
}

// ErrUnknownOutcome says that an earlier attempt ran the tool and was cut off
// before the result was in the log.
var ErrUnknownOutcome = errors.New("the tool was running when the agent was cut off; whether it took effect is not known")

// Call uses a tool: the call is in the log before run starts, its result or
// error after. A call that has a result is not run again.
func (t *Turn) Call(ctx context.Context, tool string, params json.RawMessage, opt CallOptions, run func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	step := t.step()
	if opt.CallID == "" {
		opt.CallID = "c" + strconv.FormatUint(uint64(t.Started.Seq), 10) + "-" + step
	}
	began, again := t.earlier(t.key(step))
	if !again {
		var err error
		began, err = t.append(ctx, chat.AgentToolCall{CallID: opt.CallID, Tool: tool, Params: params, Repeatable: opt.Repeatable}, t.key(step))
		if err != nil {
			return nil, err
		}
	}
	if b, ok := began.Body.(chat.AgentToolCall); ok {
		opt.CallID, opt.Repeatable = b.CallID, b.Repeatable
	}
	end := t.key(step + "-end")
	if e, ok := t.earlier(end); ok {
		switch b := e.Body.(type) {
		case chat.AgentToolResult:
			return b.Result, nil
		case chat.AgentToolError:
			return nil, errors.New(b.Error)
		}
	}
	if again && !opt.Repeatable {
		_, err := t.append(ctx, chat.AgentToolError{CallID: opt.CallID, Tool: tool, Error: ErrUnknownOutcome.Error(), Code: chat.UnknownOutcome}, end)
		return nil, errors.Join(ErrUnknownOutcome, err)
	}
	result, err := run(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		if _, aerr := t.append(ctx, chat.AgentToolError{CallID: opt.CallID, Tool: tool, Error: err.Error()}, end); aerr != nil {
			return nil, aerr
		}
		return nil, err
	}
	_, err = t.append(ctx, chat.AgentToolResult{CallID: opt.CallID, Tool: tool, Result: result}, end)
	return result, err
}

// Ask asks a person and waits for the answer, over restarts if need be. A
// notification is shown and not waited for.
func (t *Turn) Ask(ctx context.Context, q chat.AgentInputRequest) (chat.UserInputResponse, error) {
	var answer chat.UserInputResponse
	e, err := t.append(ctx, q, t.key(t.step()))
	if err != nil || q.InputType == chat.InputNotification {
		return answer, err
	}
	body, err := t.answer(ctx, e.Body.(chat.AgentInputRequest).RequestID)
	if err != nil {
		return answer, err
	}
	answer, _ = body.(chat.UserInputResponse)
	return answer, nil
}

// Approve asks a person to approve calls and waits for the decisions, one per
// call in their order.
func (t *Turn) Approve(ctx context.Context, q chat.AgentApprovalRequest) ([]chat.Decision, error) {
	e, err := t.append(ctx, q, t.key(t.step()))
	if err != nil {
		return nil, err
	}
	body, err := t.answer(ctx, e.Body.(chat.AgentApprovalRequest).RequestID)
	if err != nil {
		return nil, err
	}
	b, _ := body.(chat.UserApprovalResponse)
	return b.Decisions, nil
}

// Permit asks a person to grant scopes and waits for the decision.
func (t *Turn) Permit(ctx context.Context, q chat.AgentPermissionRequest) (chat.UserPermissionResponse, error) {
	var answer chat.UserPermissionResponse
	e, err := t.append(ctx, q, t.key(t.step()))
	if err != nil {
		return answer, err
	}
	body, err := t.answer(ctx, e.Body.(chat.AgentPermissionRequest).RequestID)
	if err != nil {
		return answer, err
	}
	answer, _ = body.(chat.UserPermissionResponse)
	return answer, nil
}

func (t *Turn) answer(ctx context.Context, requestID string) (chat.Body, error) {
	e, err := t.box.wait(ctx, requestID)
	if err != nil {
		return nil, err
	}
	if b, ok := e.Body.(chat.PromptClosed); ok {
		if b.Reason == chat.Expired {
			return nil, ErrExpired
		}
		return nil, ErrWithdrawn
	}
	return e.Body, nil
}

// Steered takes the messages that arrived during the turn under the policy
// steer. An agent calls it between its steps.
func (t *Turn) Steered(ctx context.Context) ([]chat.UserMessage, error) {
	seqs, err := t.sessions.TakeSteered(ctx, t.Ref)
	if err != nil {
		return nil, err
	}
	var msgs []chat.UserMessage
	for _, seq := range seqs {
		fact, err := t.sessions.Event(ctx, t.caller, t.Ref.Session, seq)
		if err != nil {
			return nil, err
		}
		e, err := fact.Event()
		if err != nil {
			return nil, err
		}
		if m, ok := e.Body.(chat.UserMessage); ok {
			msgs = append(msgs, m)
		}
	}
	return msgs, nil
}

// blockID names the block of a step; a new attempt that cannot go on in it
// begins another.
func (t *Turn) blockID(step string, fresh bool) chat.BlockID {
	id := fmt.Sprintf("b%d-%s", t.Started.Seq, strings.ReplaceAll(step, ".", "-"))
	if fresh {
		id += "-a" + strconv.Itoa(t.Ref.Attempt)
	}
	return chat.BlockID(id)
}
