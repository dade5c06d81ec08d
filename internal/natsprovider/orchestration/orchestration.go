// Package orchestration lets the agent of one session start child sessions and work with
// them, on x1.orchestration.{op}:
//
//	spawn    {agent, prompt, title, tool_use_id}   needs a grant of type spawn; repeated with the same tool_use_id it is one child
//	message  {session_id, text, message_id}        to a child
//	cancel   {session_id, reason}                  of a child
//	list     {}                                    the children and their status
//	events   {session_id, after, limit}            the log of a child
//
// A session may only address its own children. A child has no children, so a wake never
// causes another wake. A child that ends, fails or sends agent.message_to_caller wakes
// its parent with a user message.
//
// # What is stored
//
// A child has its parent in its record ([chat.Session.Parent]), which only the
// server writes; its metadata, which clients write, is not read. The parent has an
// event x1.child.spawned per child. Messages of the parent to a child are marked by [via],
// which no dialect uses. A wake has an idempotency key made of the event that caused it,
// so it can be repeated after a crash.
//
// # Concurrency
//
// All operations may run at the same time. Committed does not block.
package orchestration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"log/slog"
	"sync/atomic"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
)

// Sessions is the part of session.Sessions that the package uses.
type Sessions interface {
	CreateChild(ctx context.Context, parent chat.SessionID, n chat.NewSession, grant string) (chat.Session, bool, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	List(ctx context.Context, c chat.Caller, f core.Filter) (chat.SessionPage, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
	StopAll(ctx context.Context, c chat.Caller, id chat.SessionID, reason string) (chat.StopResult, error)
}

// Options of the orchestration.
type Options struct {
	Sessions Sessions
	// Allow uses a grant of a session to start an agent, for one call.
	Allow  func(ctx context.Context, workspace string, parent chat.SessionID, agent, call string) (grant string, err error)
	Logger *slog.Logger // nil means none
}

// Orchestration starts children.
type Orchestration struct {
	opt     Options
	queue   chan *chat.Event // of children, for their parents
	dropped atomic.Bool      // the queue was full
}

// New returns an orchestration; Run starts the wakes.
func New(opt Options) *Orchestration {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Orchestration{opt: opt, queue: make(chan *chat.Event, maxQueue)}
}

// Provider serves the operations.
func (o *Orchestration) Provider() natsprovider.Provider {
	return natsprovider.Provider{Domain: "orchestration", Subject: "x1.orchestration.*", Ops: map[string]natsprovider.Op{
		"spawn": natsprovider.Typed(o.spawn), "message": natsprovider.Typed(o.message), "cancel": natsprovider.Typed(o.cancel),
		"list": natsprovider.Typed(o.list), "events": natsprovider.Typed(o.events),
	}}
}

const (
	spawnedType = "x1.child.spawned"
	childPrefix = "child-" // of the ids of children

	// via marks messages of a parent to its child. Clients cannot set it.
	via = "orchestration"
)

// parent is the session that asks.
func (o *Orchestration) parent(ctx context.Context, c natsprovider.Call) (chat.Session, error) {
	if c.Session == "" {
		return chat.Session{}, chat.Errorf(chat.Denied, "the request does not come from a session")
	}
	return o.opt.Sessions.Get(ctx, chat.Trusted, c.Session)
}

// child returns a child of the session that asks. Other sessions are not found.
func (o *Orchestration) child(ctx context.Context, c natsprovider.Call, id chat.SessionID) (chat.Session, error) {
	none := chat.Errorf(chat.NotFound, "there is no session %q among the children of this one", string(id))
	if id.Validate() != nil || c.Session == "" {
		return chat.Session{}, none
	}
	sess, err := o.opt.Sessions.Get(ctx, chat.Trusted, id)
	if chat.CodeOf(err) == chat.NotFound || err == nil && sess.Parent != c.Session {
		return sess, none
	}
	return sess, err
}

type spawnAsk struct {
	Agent  string `json:"agent"`
	Slug   string `json:"agent_slug"`
	Prompt string `json:"prompt"`
	Title  string `json:"title"`
	Call   string `json:"tool_use_id"`
}

// agentCaller is a session's agent as a caller.
func agentCaller(s *chat.Session) chat.Caller {
	name := s.Agent
	if name == chat.NoAgent {
		name = "agent"
	}
	return chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: name}, Workspace: s.Workspace, Scopes: []chat.Scope{chat.ScopeAdmin}}
}

func (o *Orchestration) spawn(ctx context.Context, c natsprovider.Call, q spawnAsk) (map[string]any, error) {
	if q.Agent == "" {
		q.Agent = q.Slug
	}
	if q.Agent == "" || q.Prompt == "" || q.Call == "" || len(q.Call) > 200 {
		return nil, chat.Errorf(chat.Invalid, "spawn needs agent, prompt and a tool_use_id of at most 200 bytes")
	}
	parent, err := o.parent(ctx, c)
	if err != nil {
		return nil, err
	}
	if parent.Parent != "" { // before a grant is used up
		return nil, chat.Errorf(chat.Denied, "a child session cannot have children; ask the parent to start another one")
	}
	child, created, err := o.createChild(ctx, &parent, &q)
	if err != nil {
		return nil, err
	}
	as := agentCaller(&parent)
	err = o.sendToChild(ctx, &parent, child.ID, q.Prompt, "spawn")
	if chat.CodeOf(err) == chat.Conflict {
		return nil, chat.Errorf(chat.Conflict, "this tool_use_id has started session %s with another prompt; a new child needs a new one", child.ID)
	}
	if err != nil {
		return nil, err
	}
	note := chat.NewDraft(chat.Unknown{Name: spawnedType, Payload: mustJSON(map[string]any{"session_id": child.ID, "agent": q.Agent, "tool_use_id": q.Call, "grant_id": child.Grant})})
	if _, err := o.opt.Sessions.Append(ctx, as, parent.ID, []chat.Draft{note.As("spawn:" + q.Call)}); err != nil {
		return nil, err
	}
	return map[string]any{"ok": true, "session_id": child.ID, "created": created, "grant_id": child.Grant}, nil
}

// createChild creates the session of a child. A repeated call returns the same child and
// needs no second grant.
func (o *Orchestration) createChild(ctx context.Context, parent *chat.Session, q *spawnAsk) (child chat.Session, created bool, err error) {
	sum := sha256.Sum256([]byte(string(parent.ID) + "\x00" + q.Call))
	id := chat.SessionID(childPrefix + hex.EncodeToString(sum[:12]))
	child, err = o.opt.Sessions.Get(ctx, chat.Trusted, id)
	if err == nil && child.Parent != parent.ID {
		return child, false, chat.Errorf(chat.Conflict, "session %q is taken", string(id))
	}
	if chat.CodeOf(err) != chat.NotFound {
		return child, false, err
	}
	grant, err := o.opt.Allow(ctx, parent.Workspace, parent.ID, q.Agent, q.Call)
	if err != nil {
		return child, false, err
	}
	return o.opt.Sessions.CreateChild(ctx, parent.ID, chat.NewSession{ID: id, Agent: q.Agent, Title: q.Title}, grant)
}

// sendToChild appends a message of a parent to its child.
func (o *Orchestration) sendToChild(ctx context.Context, parent *chat.Session, child chat.SessionID, text, key string) error {
	return o.appendMessage(ctx, agentCaller(parent), child, map[string]any{"text": text, "kind": "message", "source": "orchestrator", "from_session_id": parent.ID}, key)
}

// appendMessage appends a user message with x1's extra fields.
func (o *Orchestration) appendMessage(ctx context.Context, c chat.Caller, to chat.SessionID, payload map[string]any, key string) error {
	_, err := o.opt.Sessions.Append(ctx, c, to, []chat.Draft{{Type: chat.UserMessage{}.Type(), Payload: mustJSON(payload), ClientID: key, Via: via}})
	return err
}

// mustJSON encodes plain values.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible: only texts and numbers
	}
	return b
}

type childAsk struct {
	Session   chat.SessionID `json:"session_id"`
	Text      string         `json:"text"`
	MessageID string         `json:"message_id"`
	Reason    string         `json:"reason"`
	After     chat.Seq       `json:"after"`
	Limit     int            `json:"limit"`
}

func (o *Orchestration) message(ctx context.Context, c natsprovider.Call, q childAsk) (map[string]any, error) {
	child, err := o.child(ctx, c, q.Session)
	if err != nil {
		return nil, err
	}
	if q.Text == "" || len(q.MessageID) > 200 {
		return nil, chat.Errorf(chat.Invalid, "a message has a text, and a message_id of at most 200 bytes")
	}
	parent, err := o.parent(ctx, c)
	if err != nil {
		return nil, err
	}
	key := ""
	if q.MessageID != "" {
		key = "message:" + q.MessageID
	}
	err = o.sendToChild(ctx, &parent, child.ID, q.Text, key)
	return map[string]any{"ok": err == nil}, err
}

// cancel stops a child and completes its session.
func (o *Orchestration) cancel(ctx context.Context, c natsprovider.Call, q childAsk) (map[string]any, error) {
	child, err := o.child(ctx, c, q.Session)
	if err != nil {
		return nil, err
	}
	if child.Status == chat.Completed || child.Status == chat.FailedState {
		return map[string]any{"ok": true, "stopped": false}, nil
	}
	parent, err := o.parent(ctx, c)
	if err != nil {
		return nil, err
	}
	as := agentCaller(&parent)
	if _, err := o.opt.Sessions.StopAll(ctx, as, child.ID, q.Reason); err != nil {
		return nil, err
	}
	_, err = o.opt.Sessions.Append(ctx, as, child.ID, []chat.Draft{chat.NewDraft(chat.SessionCompleted{Outcome: "canceled"})})
	return map[string]any{"ok": err == nil, "stopped": true}, err
}

// Child is the status of a child.
type Child struct {
	Session chat.SessionID `json:"session_id"`
	Agent   string         `json:"agent"`
	Title   string         `json:"title,omitempty"`
	Status  chat.Status    `json:"status"`
	Last    chat.Seq       `json:"last"`
	Error   string         `json:"error,omitempty"`
}

func (o *Orchestration) list(ctx context.Context, c natsprovider.Call, _ struct{}) (map[string]any, error) {
	parent, err := o.parent(ctx, c)
	if err != nil {
		return nil, err
	}
	children := []Child{}
	for e, err := range o.opt.Sessions.Events(ctx, chat.Trusted, parent.ID, chat.Range{Types: []string{spawnedType}}) {
		if err != nil {
			return nil, err
		}
		var at struct {
			Session chat.SessionID `json:"session_id"`
		}
		if json.Unmarshal(e.Payload, &at) != nil {
			continue
		}
		s, err := o.child(ctx, c, at.Session)
		if err != nil {
			continue // erased
		}
		o.catchUp(ctx, &s)
		children = append(children, Child{Session: s.ID, Agent: s.Agent, Title: s.Title, Status: s.Status, Last: s.Last, Error: s.Error})
	}
	return map[string]any{"ok": true, "children": children}, nil
}

func (o *Orchestration) events(ctx context.Context, c natsprovider.Call, q childAsk) (map[string]any, error) {
	child, err := o.child(ctx, c, q.Session)
	if err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > 500 {
		q.Limit = 100
	}
	facts, more, err := o.opt.Sessions.Read(ctx, chat.Trusted, child.ID, chat.Range{After: q.After, Limit: q.Limit, MaxBytes: 256 << 10})
	if err != nil {
		return nil, err
	}
	events := make([]json.RawMessage, 0, len(facts))
	for _, f := range facts {
		events = append(events, f.JSON)
	}
	return map[string]any{"ok": true, "events": events, "more": more}, nil
}
