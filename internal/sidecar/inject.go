package sidecar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// injected is what the agent gets for an input: the fields that x1's agents know,
// and beside them what else Parley's facts have.
type injected struct {
	Text      string          `json:"text"`
	RequestID string          `json:"request_id,omitempty"`
	SenderID  string          `json:"sender_id,omitempty"`
	EventID   string          `json:"event_id,omitempty"`
	Wake      string          `json:"wake_source,omitempty"`
	ShareID   string          `json:"share_id,omitempty"`
	ThreadID  string          `json:"thread_id,omitempty"`
	Kind      string          `json:"kind,omitempty"`
	Source    string          `json:"source,omitempty"`
	Origin    json.RawMessage `json:"origin,omitempty"`
	Synthetic bool            `json:"is_synthetic,omitempty"`
	Priority  string          `json:"priority,omitempty"`
	Query     *bool           `json:"should_query,omitempty"`
	FromID    string          `json:"from_session_id,omitempty"`
	Permit    string          `json:"permission_request_id,omitempty"` // of a wake by a permission's decision

	Content   json.RawMessage `json:"content,omitempty"`
	Values    []string        `json:"values,omitempty"`
	Decisions []chat.Decision `json:"decisions,omitempty"`
	Granted   []string        `json:"granted,omitempty"`
	Denied    []string        `json:"denied,omitempty"`
	Duration  string          `json:"duration,omitempty"`
	Sequence  chat.Seq        `json:"sequence,omitempty"`
}

// injection reads what an input says.
func injection(typ string, payload json.RawMessage) injected {
	var i injected
	_ = json.Unmarshal(payload, &i) // what does not fit is not there
	var more struct {
		Answer string `json:"answer"`
		UserID string `json:"user_id"`
	}
	_ = json.Unmarshal(payload, &more)
	if i.Text == "" {
		i.Text = more.Answer
	}
	if i.Text == "" {
		i.Text = strings.Join(i.Values, ", ")
	}
	if i.SenderID == "" {
		i.SenderID = more.UserID
	}
	if typ == "user.message" {
		// To x1's agents a request_id says that their question was answered.
		i.Permit, i.RequestID = i.RequestID, ""
	}
	if i.Text == "" && len(i.Content) > 0 {
		var m chat.UserMessage
		_ = json.Unmarshal(payload, &m)
		i.Text = m.PlainText()
	}
	if typ == "user.approval_response" && i.Text == "" {
		var words []string
		for _, d := range i.Decisions {
			word := "Approved: " + d.CallID
			if !d.Approve {
				word = strings.TrimSuffix("Denied: "+d.CallID+" ("+d.Reason+")", " ()")
			}
			words = append(words, word)
		}
		i.Text = strings.Join(words, "; ")
	}
	return i
}

// inject delivers what people say, one after the other in the order of the log.
func (s *Sidecar) inject(ctx context.Context) error {
	for {
		in, ok := s.book.next()
		if !ok {
			select {
			case <-s.book.news:
			case <-ctx.Done():
				return nil
			}
			continue
		}
		s.deliver(ctx, &in)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// deliver hands one input to the agent, with retries. What the agent does not
// take in the end is set aside, for all to see.
func (s *Sidecar) deliver(ctx context.Context, in *input) {
	boot, _, ok := s.reach(ctx)
	if !ok {
		return
	}
	if next, ok := s.book.next(); !ok || next.seq != in.seq {
		return // the agent has repeated it: it had heard it before
	}
	if in.msg.Type == "turn.stop_requested" {
		s.stopAgent(ctx, in)
		s.delivered(ctx, in, boot)
		return
	}
	body := injection(in.msg.Type, in.msg.Payload)
	body.Sequence = in.seq
	if body.EventID == "" {
		body.EventID = string(in.id)
	}
	if body.SenderID == "" && in.by.Kind == chat.User {
		body.SenderID = in.by.ID
	}
	s.book.offered(in)
	var err error
	tries := 0
	began := s.opt.Now()
	for {
		var waited bool
		if boot, waited, ok = s.reach(ctx); !ok {
			return
		}
		if waited {
			began = s.opt.Now() // for another process
		}
		err = s.post(ctx, "/inject", body.EventID, body)
		if err == nil {
			s.delivered(ctx, in, boot)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, syscall.ECONNREFUSED) && s.opt.Now().Sub(began) < s.opt.Wait {
			// Nobody listens: the agent is starting. That is no refusal.
			if !pause(ctx, 200*time.Millisecond) {
				return
			}
			continue
		}
		tries++
		s.log.Warn("the agent did not take an input", "sequence", in.seq, "attempt", tries, "err", err)
		if tries > len(s.opt.Retry) {
			break
		}
		if !pause(ctx, s.opt.Retry[tries-1]) {
			return
		}
	}
	s.undelivered(ctx, in, boot, tries, err)
}

// reach waits until it is known which process the agent is: what it was told it
// repeats, and that must not be taken for words of its own.
func (s *Sidecar) reach(ctx context.Context) (boot int64, waited, ok bool) {
	waited, ok = s.stream.gate.wait(ctx)
	s.book.look(func(b *book) { boot = b.boot })
	return boot, waited, ok
}

// stopAgent asks the agent to stop; not all can.
func (s *Sidecar) stopAgent(ctx context.Context, in *input) {
	if err := s.post(ctx, "/stop", "", in.msg.Payload); err != nil {
		s.log.Info("the agent cannot be told to stop", "err", err)
	}
}

// delivered writes down that the agent has an input.
func (s *Sidecar) delivered(ctx context.Context, in *input, boot int64) {
	d := draft{typ: deliveredType, key: fmt.Sprintf("in:%d", in.seq), payload: map[string]any{"sequence": in.seq, "boot": boot}}
	s.settle(ctx, in, boot, d)
}

// undelivered sets an input aside that the agent did not take.
func (s *Sidecar) undelivered(ctx context.Context, in *input, boot int64, tries int, cause error) {
	_, err := s.write.send(ctx, draft{typ: "agent.error", key: fmt.Sprintf("lost:%d", in.seq), payload: chat.AgentError{
		Message:     fmt.Sprintf("Message %d could not be handed to the agent after %d attempts and was set aside. Send it again when the agent is well.", in.seq, tries),
		Recoverable: true,
	}})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("an undelivered input could not be shown", "err", err)
	}
	s.log.Error("an input was set aside: the agent did not take it", "sequence", in.seq, "attempts", tries, "err", cause)
	s.settle(ctx, in, boot, draft{typ: undeliveredType, key: fmt.Sprintf("in:%d", in.seq), payload: map[string]any{"sequence": in.seq, "boot": boot, "attempts": tries, "error": cause.Error()}})
}

// settle stores what became of an input; the book follows at once.
func (s *Sidecar) settle(ctx context.Context, in *input, boot int64, d draft) {
	if _, err := s.write.send(ctx, d); err != nil {
		if chat.CodeOf(err) != chat.Conflict {
			if ctx.Err() == nil {
				s.log.Error("what became of an input could not be stored", "sequence", in.seq, "err", err)
			}
			return
		}
	}
	s.book.look(func(b *book) { b.doneLocked(in.seq, boot) })
}

// keepalive tells the agent that somebody looks.
func (s *Sidecar) keepalive(ctx context.Context) error {
	for {
		select {
		case <-s.present:
		case <-ctx.Done():
			return nil
		}
		if err := s.post(ctx, "/keepalive", "", struct{}{}); err != nil && ctx.Err() == nil {
			s.log.Debug("the agent did not take a keepalive", "err", err)
		}
		if !pause(ctx, 200*time.Millisecond) { // many viewers are one presence
			return nil
		}
	}
}
