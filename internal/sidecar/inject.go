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
	"github.com/parley-hq/parley/internal/sleep"
)

// injectBody is the body of POST /inject: the fields that x1's agents read, and further
// fields of Parley's events.
type injectBody struct {
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
	Permit    string          `json:"permission_request_id,omitempty"` // of a permission decision

	Content   json.RawMessage `json:"content,omitempty"`
	Values    []string        `json:"values,omitempty"`
	Decisions []chat.Decision `json:"decisions,omitempty"`
	Granted   []string        `json:"granted,omitempty"`
	Denied    []string        `json:"denied,omitempty"`
	Duration  string          `json:"duration,omitempty"`
	Sequence  chat.Seq        `json:"sequence,omitempty"`
}

// injection reads the payload of an input.
func injection(typ string, payload json.RawMessage) injectBody {
	var i injectBody
	_ = json.Unmarshal(payload, &i) // fields of another type count as missing
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
		// x1's agents take a request_id for the answer to their question.
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

// inject delivers inputs one after the other in the order of the log.
func (s *Sidecar) inject(ctx context.Context) error {
	for {
		in, ok := s.state.next()
		if !ok {
			select {
			case <-s.state.changed:
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

// deliver sends one input to the agent, with retries. If the agent does not accept it,
// x1.input.undelivered and agent.error are stored.
func (s *Sidecar) deliver(ctx context.Context, in *input) {
	boot, _, ok := s.waitForAgent(ctx)
	if !ok {
		return
	}
	if next, ok := s.state.next(); !ok || next.seq != in.seq {
		return // its echo proved that the agent has it
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
	s.state.expectEcho(in)
	boot, tries, err := s.postInput(ctx, in, body)
	switch {
	case err == nil:
		s.delivered(ctx, in, boot)
	case ctx.Err() == nil:
		s.undelivered(ctx, in, boot, tries, err)
	}
}

// postInput posts an input until the agent accepts it, has refused it too often, or ctx ends. It returns the boot of the agent that
// answered last, and how often the input was refused.
func (s *Sidecar) postInput(ctx context.Context, in *input, body injectBody) (boot int64, refused int, err error) {
	began := time.Now()
	for {
		var waited, ok bool
		if boot, waited, ok = s.waitForAgent(ctx); !ok {
			return boot, refused, context.Cause(ctx)
		}
		if waited {
			began = time.Now() // it may be another process
		}
		pause := 200 * time.Millisecond
		err = s.post(ctx, "/inject", body.EventID, body)
		switch {
		case err == nil || ctx.Err() != nil:
			return boot, refused, err
		case errors.Is(err, syscall.ECONNREFUSED) && time.Since(began) < s.opt.Wait:
			// The port is closed: the agent is starting. That is not a refusal.
		default:
			refused++
			s.log.Warn("the agent did not accept an input", "sequence", in.seq, "attempt", refused, "err", err)
			if refused > len(s.opt.Retry) {
				return boot, refused, err
			}
			pause = s.opt.Retry[refused-1]
		}
		if sleep.For(ctx, pause) != nil {
			return boot, refused, err
		}
	}
}

// waitForAgent waits until it is known which process the agent is, so that its echoes
// are recognised.
func (s *Sidecar) waitForAgent(ctx context.Context) (boot int64, waited, ok bool) {
	waited, ok = s.stream.ready.wait(ctx)
	s.state.view(func(b *state) { boot = b.boot })
	return boot, waited, ok
}

// stopAgent asks the agent to stop; not every agent can.
func (s *Sidecar) stopAgent(ctx context.Context, in *input) {
	if err := s.post(ctx, "/stop", "", in.msg.Payload); err != nil {
		s.log.Info("the agent did not accept a stop request", "err", err)
	}
}

// delivered stores that the agent has accepted an input.
func (s *Sidecar) delivered(ctx context.Context, in *input, boot int64) {
	d := draft{typ: deliveredType, key: fmt.Sprintf("in:%d", in.seq), payload: map[string]any{"sequence": in.seq, "boot": boot}}
	s.storeOutcome(ctx, in, boot, d)
}

// undelivered stores that the agent did not accept an input.
func (s *Sidecar) undelivered(ctx context.Context, in *input, boot int64, tries int, cause error) {
	_, err := s.write.send(ctx, draft{typ: "agent.error", key: fmt.Sprintf("lost:%d", in.seq), payload: chat.AgentError{
		Message:     fmt.Sprintf("Message %d could not be handed to the agent after %d attempts and was set aside. Send it again when the agent works.", in.seq, tries),
		Recoverable: true,
	}})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the error about an undelivered input could not be stored", "err", err)
	}
	s.log.Error("an input was set aside: the agent did not accept it", "sequence", in.seq, "attempts", tries, "err", cause)
	s.storeOutcome(ctx, in, boot, draft{typ: undeliveredType, key: fmt.Sprintf("in:%d", in.seq), payload: map[string]any{"sequence": in.seq, "boot": boot, "attempts": tries, "error": cause.Error()}})
}

// storeOutcome stores the outcome of a delivery and updates the state.
func (s *Sidecar) storeOutcome(ctx context.Context, in *input, boot int64, d draft) {
	if _, err := s.write.send(ctx, d); err != nil {
		if chat.CodeOf(err) != chat.Conflict {
			if ctx.Err() == nil {
				s.log.Error("the outcome of a delivery could not be stored", "sequence", in.seq, "err", err)
			}
			return
		}
	}
	s.state.view(func(b *state) { b.doneLocked(in.seq, boot) })
}

// keepalive tells the agent that a person is viewing the session.
func (s *Sidecar) keepalive(ctx context.Context) error {
	for {
		select {
		case <-s.present:
		case <-ctx.Done():
			return nil
		}
		if err := s.post(ctx, "/keepalive", "", struct{}{}); err != nil && ctx.Err() == nil {
			s.log.Debug("the agent did not accept a keepalive", "err", err)
		}
		if sleep.For(ctx, 200*time.Millisecond) != nil { // several viewers count once
			return nil
		}
	}
}
