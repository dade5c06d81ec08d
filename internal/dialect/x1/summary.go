package x1

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Summariser returns a short text about a session; events are its latest events, in order.
type Summariser func(ctx context.Context, s chat.Session, events []chat.Event) (string, error)

// SummaryPolicy says when a summary is written again; the zero value works.
type SummaryPolicy struct {
	Events int           // after this many events; 0 means 10
	Time   time.Duration // or after this time, if there were any; 0 means 5 minutes
	Look   int           // how many of the latest events are read; 0 means 200
}

// summaries writes the summaries of sessions.
type summaries struct {
	d    *Dialect
	opt  SummaryPolicy
	wake chan struct{}

	mu      sync.Mutex
	changed map[chat.SessionID]*changes
}

// changes counts events since the last summary.
type changes struct {
	events int
	since  time.Time
}

func newSummaries(d *Dialect) *summaries {
	opt := d.opt.Summary
	opt.Events = cmp.Or(opt.Events, 10)
	opt.Time = cmp.Or(opt.Time, 5*time.Minute)
	opt.Look = cmp.Or(opt.Look, 200)
	return &summaries{d: d, opt: opt, wake: make(chan struct{}, 1), changed: map[chat.SessionID]*changes{}}
}

// public reports whether a summary covers events of this type.
func public(typ string) bool {
	return strings.HasPrefix(typ, "user.") || strings.HasPrefix(typ, "agent.") ||
		typ == "session.completed" || typ == "session.failed"
}

// note counts stored events.
func (s *summaries) note(id chat.SessionID, entries []chat.Entry) {
	if s.d.opt.Summarise == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		if entries[i].Piece != nil || !public(entries[i].Label.Type) {
			continue
		}
		u := s.changed[id]
		if u == nil {
			u = &changes{since: s.d.opt.Now()}
			s.changed[id] = u
		}
		if u.events++; u.events == s.opt.Events {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
}

func (s *summaries) forget(id chat.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.changed, id)
}

// run writes summaries, one after the other, until ctx ends.
func (s *summaries) run(ctx context.Context) {
	if s.d.opt.Summarise == nil {
		return
	}
	tick := time.NewTicker(max(s.opt.Time/10, 10*time.Millisecond))
	defer tick.Stop()
	for {
		for _, id := range s.due() {
			if err := s.summarise(ctx, id); err != nil && ctx.Err() == nil && chat.CodeOf(err) != chat.Gone {
				s.d.log.WarnContext(ctx, "a session could not be summarised", "session", id, "err", err)
			}
		}
		select {
		case <-s.wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// due takes the sessions that need a summary now.
func (s *summaries) due() (ids []chat.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.d.opt.Now()
	for id, u := range s.changed {
		if u.events >= s.opt.Events || now.Sub(u.since) >= s.opt.Time {
			ids = append(ids, id)
			delete(s.changed, id)
		}
	}
	return ids
}

// summarise writes one summary into the session's record.
func (s *summaries) summarise(ctx context.Context, id chat.SessionID) error {
	sess, err := s.d.opt.Sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return err
	}
	events, err := s.d.newestEvents(ctx, id, s.opt.Look)
	if err != nil {
		return err
	}
	text, err := s.d.opt.Summarise(ctx, sess, events)
	if err != nil || text == "" || text == sess.Summary {
		return err
	}
	_, err = s.d.opt.Sessions.Update(ctx, chat.Trusted, id, chat.SessionUpdated{Summary: &text})
	return err
}

// PlainSummary is a Summariser that needs no model: the last question, the last answer,
// and counts. The same log always gives the same summary.
func PlainSummary(_ context.Context, s chat.Session, events []chat.Event) (string, error) {
	var asked, answered string
	messages, answers, calls := 0, 0, 0
	for _, e := range events {
		switch b := e.Body.(type) {
		case chat.UserMessage:
			messages++
			asked = b.PlainText()
		case chat.AgentText:
			answers++
			answered = b.Text
		case chat.AgentToolCall:
			calls++
		}
	}
	if messages+answers+calls == 0 {
		return s.Summary, nil
	}
	text := fmt.Sprintf("%d messages, %d answers, %d tool calls.", messages, answers, calls)
	if asked != "" {
		text += " Asked: " + title(asked)
	}
	if answered != "" {
		text += " Answered: " + title(answered)
	}
	return text, nil
}
