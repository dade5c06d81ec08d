package model

import (
	"context"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// running is the message of the progress event that marks a non-repeatable tool call
// right before it runs.
const running = "running"

// state is the position of a turn's loop, read from the log.
type state struct {
	turn       chat.TurnID
	workstream string
	stepPrefix string   // prefix of the client ids of model steps
	last       chat.Seq // the last event that was read
	steps      int      // completed model steps
	lastStep   chat.Seq // the last event of the last step
	lastInput  chat.Seq // the last turn.input event
	calls      []*call  // in the order in which the model made them
	stepCalls  int      // number of calls in completed steps
	noCalls    bool     // the last step made no calls

	unsavedGrants bool // there may be permanent permissions that are not stored yet
}

// call is a tool call that the model requested.
type call struct {
	id, tool   string
	params     json.RawMessage
	repeatable bool
	request    string // the prompt that asks for approval; "" means none is needed
	decided    bool   // a person decided, or the prompt was closed
	approved   bool
	called     bool // agent.tool_call is in the log
	marked     bool // the log has the mark that it is about to run
	done       bool // it has a result or an error

	ran *chat.Decision // the decision of a client that executed the call itself
}

// take applies a decision to an approved call.
func (c *call) take(d chat.Decision) {
	if len(d.Params) > 0 {
		c.params = d.Params
	}
	if d.Ran() {
		c.ran = &d
	}
}

// pending reports whether the call is neither finished nor denied.
func (c *call) pending() bool { return !c.done && !(c.decided && !c.approved) }

func newState(t *agent.Turn, started chat.Seq) *state {
	ref := t.Ref()
	return &state{turn: ref.Turn, workstream: t.Workstream, stepPrefix: string(ref.Turn) + "/m", last: started - 1}
}

// read applies the events that were added to the log.
func (s *state) read(ctx context.Context, t *agent.Turn) error {
	return t.Log(ctx, s.last+1, s.apply)
}

func (s *state) apply(e chat.Event) {
	s.last = e.Seq
	if e.Turn != s.turn || e.Workstream != s.workstream {
		return
	}
	switch b := e.Body.(type) {
	case chat.AgentUsage:
		if strings.HasPrefix(e.ClientID, s.stepPrefix) {
			s.steps++
			s.lastStep, s.noCalls, s.stepCalls = e.Seq, len(s.calls) == s.stepCalls, len(s.calls)
		}
	case chat.TurnInput:
		s.lastInput = e.Seq
	case chat.AgentToolCall:
		c := s.find(b.CallID)
		if c == nil {
			c = &call{id: b.CallID, tool: b.Tool}
			s.calls = append(s.calls, c)
		}
		c.params, c.repeatable, c.called = b.Params, b.Repeatable, true
	case chat.AgentApprovalRequest:
		for _, a := range b.Calls {
			if s.find(a.CallID) == nil {
				s.calls = append(s.calls, &call{id: a.CallID, tool: a.Tool, params: a.Params, request: b.RequestID})
			}
		}
	case chat.UserApprovalResponse:
		for _, d := range b.Decisions {
			if c := s.find(d.CallID); c != nil && c.request == b.RequestID {
				c.decided, c.approved = true, d.Approve
				c.take(d)
			}
		}
	case chat.PromptClosed:
		for _, c := range s.calls {
			if c.request == b.RequestID {
				c.decided = true
			}
		}
	case chat.UserPermissionResponse:
		if b.Duration == "always" && len(b.Granted) > 0 {
			s.unsavedGrants = true
		}
	case chat.AgentToolProgress:
		if c := s.find(b.CallID); c != nil && b.Message == running && b.Done == 0 {
			c.marked = true
		}
	case chat.AgentToolResult:
		if c := s.find(b.CallID); c != nil {
			c.done = true
		}
	case chat.AgentToolError:
		if c := s.find(b.CallID); c != nil {
			c.done = true
		}
	}
}

func (s *state) find(id string) *call {
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].id == id {
			return s.calls[i]
		}
	}
	return nil
}

// pending lists the calls that are neither finished nor denied.
func (s *state) pending() []*call {
	var out []*call
	for _, c := range s.calls {
		if c.pending() {
			out = append(out, c)
		}
	}
	return out
}

// answered reports whether the answer is complete: the last step made no calls, and no
// message arrived after it.
func (s *state) answered() bool { return s.steps > 0 && s.noCalls && s.lastStep > s.lastInput }
