package orchestration

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// concerns are the types of a child's events that concern its parent. A turn ends
// only where the child's agent is one of ours; others end their sessions.
var concerns = []string{"session.completed", "session.failed", "agent.message_to_caller", "turn.completed"}

// maxQueue bounds the events that wait for Run. When the queue is full, events are
// dropped and Run looks through the recent sessions again, as after a start.
const maxQueue = 10_000

// Committed gets the events of every commit. It does not block.
func (o *Orchestration) Committed(evs []chat.Event) {
	for i := range evs {
		if !slices.Contains(concerns, evs[i].Type) || !strings.HasPrefix(string(evs[i].Session), childPrefix) {
			continue
		}
		o.mu.Lock()
		if len(o.queue) < maxQueue {
			o.queue = append(o.queue, evs[i])
		} else {
			o.dropped = true
		}
		o.mu.Unlock()
		select {
		case o.news <- struct{}{}:
		default:
		}
	}
}

// recent is how many sessions are looked at after a start for wakes that a crash
// swallowed.
const recent = 200

// Run wakes parents until ctx ends.
func (o *Orchestration) Run(ctx context.Context) error {
	o.catchUpRecent(ctx)
	for {
		select {
		case <-o.news:
		case <-ctx.Done():
			return nil
		}
		o.mu.Lock()
		queue, dropped := o.queue, o.dropped
		o.queue, o.dropped = nil, false
		o.mu.Unlock()
		if dropped {
			o.catchUpRecent(ctx)
		}
		for i := range queue {
			if err := o.wake(ctx, &queue[i]); err != nil && ctx.Err() == nil {
				o.opt.Logger.Warn("a parent could not be woken", "session", queue[i].Session, "err", err)
			}
		}
	}
}

// catchUpRecent sends the wakes that the recent sessions lack.
func (o *Orchestration) catchUpRecent(ctx context.Context) {
	page, err := o.opt.Sessions.List(ctx, chat.Trusted, chat.Filter{Limit: recent})
	if err != nil && ctx.Err() == nil {
		o.opt.Logger.Warn("sessions could not be looked at for children that wait for their parents", "err", err)
	}
	for i := range page.Sessions {
		o.catchUp(ctx, &page.Sessions[i])
	}
}

// catchUp wakes a child's parent for all that concerns it; what was done before is
// not done again.
func (o *Orchestration) catchUp(ctx context.Context, s *chat.Session) {
	if s.Parent == "" {
		return
	}
	facts, _, err := o.opt.Sessions.Read(ctx, chat.Trusted, s.ID, chat.Range{Limit: 100, Desc: true, Types: concerns})
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

// wake tells the parent of a child what happened there.
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
			return nil // the parent itself did it
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
		_ = json.Unmarshal(e.Payload, &said) // then it is empty
		if text = said.Text; text == "" {
			text = said.Message
		}
		if text == "" {
			return nil
		}
	}
	c := chat.Trusted
	c.Workspace = child.Workspace
	return o.say(ctx, c, parent.ID, map[string]any{
		"text": text, "kind": kind, "source": "platform", "driverless": true, "is_synthetic": true, "from_session_id": child.ID,
	}, "child:"+string(e.ID))
}

// maxAnswer bounds how much of a child's answer its parent is told; the child's
// events have the rest.
const maxAnswer = 16 << 10

// outcome says how a turn ended that a child's parent had asked for, "" when that
// is not for its parent.
func (o *Orchestration) outcome(ctx context.Context, child *chat.Session, e *chat.Event, b *chat.TurnCompleted) (string, error) {
	if e.Workstream != "" || b.Outcome != chat.Done && b.Outcome != chat.Failed {
		return "", nil // a line of its own, or somebody stopped it
	}
	facts, _, err := o.opt.Sessions.Read(ctx, chat.Trusted, child.ID, chat.Range{Before: e.Seq, Limit: 100, Desc: true, Types: []string{"agent.text", "turn.started"}})
	if err != nil {
		return "", err
	}
	answer := ""
	for _, f := range facts {
		part, err := f.Event()
		if err != nil {
			return "", err
		}
		switch p := part.Body.(type) {
		case chat.AgentText:
			if answer == "" && part.Turn == b.TurnID && part.Workstream == "" {
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

// asked reports whether it was the parent that said something to its child.
func (o *Orchestration) asked(ctx context.Context, child *chat.Session, seq chat.Seq) (bool, error) {
	facts, _, err := o.opt.Sessions.Read(ctx, chat.Trusted, child.ID, chat.Range{After: seq - 1, Limit: 1})
	if err != nil || len(facts) == 0 || seq == 0 {
		return false, err
	}
	e, err := facts[0].Event()
	if err != nil {
		return false, err
	}
	return e.Via == via, nil
}

// result is how a parent is told what came of a turn.
func result(child *chat.Session, b *chat.TurnCompleted, answer string) string {
	name := "Session " + string(child.ID) + " (" + child.Agent + ")"
	if b.Outcome == chat.Failed {
		return name + " has failed: " + b.Error
	}
	if len(answer) > maxAnswer {
		answer = strings.ToValidUTF8(answer[:maxAnswer], "") + "…"
	}
	return name + " has answered: " + answer
}
