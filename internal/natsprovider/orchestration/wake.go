package orchestration

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// wakeTypes are the types of a child's events that may wake its parent. turn.completed
// exists only if the server runs the child's agent; other agents end their sessions.
var wakeTypes = []string{"session.completed", "session.failed", "agent.message_to_caller", "turn.completed"}

// maxQueue bounds the events that wait for Run. When the queue is full, events are
// dropped and Run looks through the recent sessions again, as after a start.
const maxQueue = 10_000

// Committed gets the events of every commit. It does not block.
func (o *Orchestration) Committed(evs []chat.Event) {
	for i := range evs {
		if !slices.Contains(wakeTypes, evs[i].Type) || !strings.HasPrefix(string(evs[i].Session), childPrefix) {
			continue
		}
		e := evs[i]
		select {
		case o.queue <- &e:
		default:
			o.dropped.Store(true)
		}
	}
}

// recent is how many sessions a start checks for wakes that were lost in a crash.
const recent = 200

// Run wakes parents until ctx ends.
func (o *Orchestration) Run(ctx context.Context) error {
	o.catchUpRecent(ctx)
	for {
		select {
		case e := <-o.queue:
			if err := o.wake(ctx, e); err != nil && ctx.Err() == nil {
				o.opt.Logger.Warn("a parent could not be woken", "session", e.Session, "err", err)
			}
		case <-ctx.Done():
			return nil
		}
		if o.dropped.Swap(false) {
			o.catchUpRecent(ctx)
		}
	}
}

// catchUpRecent sends the wakes that the recent sessions lack.
func (o *Orchestration) catchUpRecent(ctx context.Context) {
	page, err := o.opt.Sessions.List(ctx, chat.Trusted, core.Filter{Limit: recent})
	if err != nil && ctx.Err() == nil {
		o.opt.Logger.Warn("sessions could not be checked for missing wakes", "err", err)
	}
	for i := range page.Sessions {
		o.catchUp(ctx, &page.Sessions[i])
	}
}

// catchUp sends all wakes of a child again; the idempotency key excludes repetitions.
func (o *Orchestration) catchUp(ctx context.Context, s *chat.Session) {
	if s.Parent == "" {
		return
	}
	facts, _, err := o.opt.Sessions.Read(ctx, chat.Trusted, s.ID, chat.Range{Limit: 100, Desc: true, Types: wakeTypes})
	for i := len(facts) - 1; i >= 0 && err == nil; i-- {
		var e chat.Event
		if e, err = facts[i].Event(); err == nil {
			err = o.wake(ctx, &e)
		}
	}
	if err != nil && ctx.Err() == nil {
		o.opt.Logger.Warn("a parent could not be woken", "session", s.ID, "err", err)
	}
}

// wake sends the parent of a child a message about an event of the child.
func (o *Orchestration) wake(ctx context.Context, e *chat.Event) error {
	child, err := o.opt.Sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return err
	}
	if child.Parent == "" {
		return nil
	}
	parent, err := o.opt.Sessions.Get(ctx, chat.Trusted, child.Parent)
	if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
		return nil // erased
	}
	if err != nil {
		return err
	}
	if parent.Workspace != child.Workspace || parent.Parent != "" || parent.ID.System() {
		return chat.Errorf(chat.Denied, "session %q cannot have the child %q", string(parent.ID), string(child.ID))
	}
	kind, text := "state_change", "Session "+string(child.ID)+" ("+child.Agent+") has ended."
	switch b := e.Body.(type) {
	case chat.SessionCompleted:
		if b.Outcome == "canceled" {
			return nil // the parent canceled it
		}
	case chat.SessionFailed:
		text = "Session " + string(child.ID) + " (" + child.Agent + ") has failed: " + b.ErrorMessage
	case chat.TurnCompleted:
		if text, err = o.outcome(ctx, &child, e, &b); err != nil || text == "" {
			return err
		}
	default:
		kind = "message"
		var said struct {
			Text    string `json:"text"`
			Message string `json:"message"`
		}
		_ = json.Unmarshal(e.Payload, &said) // an empty text is no wake
		if text = said.Text; text == "" {
			text = said.Message
		}
		if text == "" {
			return nil
		}
	}
	c := chat.Trusted
	c.Workspace = child.Workspace
	return o.appendMessage(ctx, c, parent.ID, map[string]any{
		"text": text, "kind": kind, "source": "platform", "driverless": true, "is_synthetic": true, "from_session_id": child.ID,
	}, "child:"+string(e.ID))
}

// maxAnswer bounds the part of a child's answer in a wake.
const maxAnswer = 16 << 10

// outcome describes the end of a turn that the parent's message started; "" for other
// turns.
func (o *Orchestration) outcome(ctx context.Context, child *chat.Session, e *chat.Event, b *chat.TurnCompleted) (string, error) {
	if e.Workstream != "" || b.Outcome != chat.Done && b.Outcome != chat.Failed {
		return "", nil // a workstream, or it was stopped
	}
	answer := ""
	for earlier, err := range o.opt.Sessions.Events(ctx, chat.Trusted, child.ID, chat.Range{Before: e.Seq, Limit: 100, Desc: true, Types: []string{"agent.text", "turn.started"}}) {
		if err != nil {
			return "", err
		}
		switch p := earlier.Body.(type) {
		case chat.AgentText:
			if answer == "" && earlier.Turn == b.TurnID && earlier.Workstream == "" {
				answer = p.Text
			}
		case chat.TurnStarted:
			if p.TurnID != b.TurnID {
				continue
			}
			if asked, err := o.asked(ctx, child, p.Trigger); err != nil || !asked {
				return "", err
			}
			return result(child, b, answer), nil
		}
	}
	return "", nil
}

// asked reports whether an event is a message of the parent.
func (o *Orchestration) asked(ctx context.Context, child *chat.Session, seq chat.Seq) (bool, error) {
	if seq == 0 {
		return false, nil
	}
	e, err := o.opt.Sessions.Event(ctx, chat.Trusted, child.ID, seq)
	return err == nil && e.Via == via, err
}

// result is the text about the end of a turn.
func result(child *chat.Session, b *chat.TurnCompleted, answer string) string {
	name := "Session " + string(child.ID) + " (" + child.Agent + ")"
	if b.Outcome == chat.Failed {
		return name + " has failed: " + b.Error
	}
	return name + " has answered: " + text.Clip(answer, maxAnswer)
}
