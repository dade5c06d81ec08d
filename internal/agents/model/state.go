package model

import (
	"context"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// running is the message of the mark that a tool which may not be repeated gets
// right before it runs.
const running = "running"

// state is what the log says of a turn: where its loop is.
type state struct {
	turn  chat.TurnID
	line  string
	mine  string   // what the idempotency keys of model steps begin with
	last  chat.Seq // read so far
	steps int      // of the model, finished
	spoke chat.Seq // the end of the last one
	heard chat.Seq // the last message that was taken into the turn
	calls []*call  // in the order in which the model made them
	known int      // calls of finished steps
	quiet bool     // the last step made no calls

	lasting bool // there are permissions for good that are not known to be kept
}

// call is a use of a tool that the model asked for.
type call struct {
	id, tool   string
	params     json.RawMessage
	repeatable bool
	request    string // the prompt that asks for approval; "" means none is needed
	decided    bool   // by a person, or by the end of the prompt
	approved   bool
	called     bool // agent.tool_call is in the log
	marked     bool // it may have begun
	done       bool // it has a result or an error

	ran *chat.Decision // the client that decided has executed it, with this result
}

// take notes what was decided on a call that may be made.
func (c *call) take(d chat.Decision) {
	if len(d.Params) > 0 {
		c.params = d.Params
	}
	if d.Ran() {
		c.ran = &d
	}
}

// pending reports whether something is still to be done for the call.
func (c *call) pending() bool { return !c.done && !(c.decided && !c.approved) }

func newState(t *agent.Turn, started chat.Seq) *state {
	ref := t.Ref()
	return &state{turn: ref.Turn, line: t.Workstream, mine: string(ref.Turn) + "/m", last: started - 1}
}

// read takes in what was added to the log.
func (s *state) read(ctx context.Context, t *agent.Turn) error {
	return t.Log(ctx, s.last+1, s.apply)
}

func (s *state) apply(e chat.Event) {
	s.last = e.Seq
	if e.Turn != s.turn || e.Workstream != s.line {
		return
	}
	switch b := e.Body.(type) {
	case chat.AgentUsage:
		if strings.HasPrefix(e.ClientID, s.mine) {
			s.steps++
			s.spoke, s.quiet, s.known = e.Seq, len(s.calls) == s.known, len(s.calls)
		}
	case chat.TurnInput:
		s.heard = e.Seq
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
			s.lasting = true
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

// pending lists the calls for which something is still to be done.
func (s *state) pending() []*call {
	var out []*call
	for _, c := range s.calls {
		if c.pending() {
			out = append(out, c)
		}
	}
	return out
}

// answered reports whether the model has said all it wanted: its last step made
// no calls, and nothing came in since.
func (s *state) answered() bool { return s.steps > 0 && s.quiet && s.spoke > s.heard }
