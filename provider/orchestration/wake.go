package orchestration

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// wakes reports whether an event of a child concerns its parent.
func wakes(typ string) bool {
	return typ == "session.completed" || typ == "session.failed" || typ == "agent.message_to_caller"
}

// Committed is told of every commit. It does not block.
func (o *Orchestration) Committed(evs []chat.Event) {
	for i := range evs {
		if !wakes(evs[i].Type) || strings.HasPrefix(string(evs[i].Session), "sys-") {
			continue
		}
		o.mu.Lock()
		o.queue = append(o.queue, evs[i])
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
	page, err := o.opt.Sessions.List(ctx, chat.Trusted, chat.Filter{Limit: recent})
	if err != nil && ctx.Err() == nil {
		o.opt.Logger.Warn("sessions could not be looked at for children that wait for their parents", "err", err)
	}
	for i := range page.Sessions {
		o.catchUp(ctx, &page.Sessions[i])
	}
	for {
		select {
		case <-o.news:
		case <-ctx.Done():
			return nil
		}
		o.mu.Lock()
		queue := o.queue
		o.queue = nil
		o.mu.Unlock()
		for i := range queue {
			if err := o.wake(ctx, &queue[i]); err != nil && ctx.Err() == nil {
				o.opt.Logger.Warn("a parent could not be woken", "session", queue[i].Session, "err", err)
			}
		}
	}
}

// catchUp wakes a child's parent for all that concerns it; what was done before is
// not done again.
func (o *Orchestration) catchUp(ctx context.Context, s *chat.Session) {
	if parentOf(s).X1.Parent == "" {
		return
	}
	facts, _, err := o.opt.Sessions.Read(ctx, chat.Trusted, s.ID, chat.Range{Limit: 100, Desc: true, Types: []string{"session.completed", "session.failed", "agent.message_to_caller"}})
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
	parent := parentOf(&child).X1.Parent
	if parent == "" {
		return nil
	}
	kind, text := "state_change", "Session "+string(child.ID)+" ("+child.Agent+") has ended."
	switch b := e.Body.(type) {
	case chat.SessionCompleted:
		if b.Outcome == "canceled" {
			return nil // the parent itself did it
		}
	case chat.SessionFailed:
		text = "Session " + string(child.ID) + " (" + child.Agent + ") has failed: " + b.ErrorMessage
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
	return o.say(ctx, c, parent, map[string]any{
		"text": text, "kind": kind, "source": "platform", "driverless": true, "is_synthetic": true, "from_session_id": child.ID,
	}, "child:"+string(e.ID))
}
