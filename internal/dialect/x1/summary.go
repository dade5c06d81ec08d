package x1

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// A summary is written again after summaryEvents events, or after summaryTime if there were
// any. It reads the latest summaryLook events.
const (
	summaryEvents = 10
	summaryTime   = 5 * time.Minute
	summaryLook   = 200
)

// summaries writes the summaries of sessions.
type summaries struct {
	d    *Dialect
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
	return &summaries{d: d, wake: make(chan struct{}, 1), changed: map[chat.SessionID]*changes{}}
}

// public reports whether a summary covers events of this type.
func public(typ string) bool {
	return strings.HasPrefix(typ, "user.") || strings.HasPrefix(typ, "agent.") ||
		typ == "session.completed" || typ == "session.failed"
}

// note counts stored events.
func (s *summaries) note(id chat.SessionID, entries []core.Entry) {
	if !s.d.opt.Summaries {
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
		if u.events++; u.events == summaryEvents {
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
	if !s.d.opt.Summaries {
		return
	}
	tick := time.NewTicker(summaryTime / 10)
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
		if u.events >= summaryEvents || now.Sub(u.since) >= summaryTime {
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
	events, err := s.d.newestEvents(ctx, id, summaryLook)
	if err != nil {
		return err
	}
	text := summaryOf(events)
	if text == "" || text == sess.Summary {
		return nil
	}
	_, err = s.d.opt.Sessions.Update(ctx, chat.Trusted, id, chat.SessionUpdated{Summary: &text})
	return err
}

// summaryOf returns the last question, the last answer, and counts. The same log always
// gives the same summary.
func summaryOf(events []chat.Event) string {
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
		return ""
	}
	text := fmt.Sprintf("%d messages, %d answers, %d tool calls.", messages, answers, calls)
	if asked != "" {
		text += " Asked: " + title(asked)
	}
	if answered != "" {
		text += " Answered: " + title(answered)
	}
	return text
}
