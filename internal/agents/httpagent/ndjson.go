package httpagent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// ndjsonLine is one line of an answer. Its other fields are those of the event
// that its type names.
type ndjsonLine struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	CallID    string          `json:"call_id"`
	Tool      string          `json:"tool"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     json.RawMessage `json:"error"`
	RequestID string          `json:"request_id"`
	Message   string          `json:"message"`
}

// openBlock is a block that an earlier attempt left open.
type openBlock struct {
	Kind chat.BlockKind `json:"kind"`
	Text string         `json:"text"`
}

// ndjsonAnswer is a closed prompt.
type ndjsonAnswer struct {
	RequestID string          `json:"request_id"`
	Outcome   string          `json:"outcome"` // answered, expired, withdrawn
	Text      string          `json:"text,omitempty"`
	Values    []string        `json:"values,omitempty"`
	Decisions []chat.Decision `json:"decisions,omitempty"`
	Granted   []string        `json:"granted,omitempty"`
	Denied    []string        `json:"denied,omitempty"`
}

// ndjson calls an endpoint that speaks Parley's own protocol.
func ndjson(ctx context.Context, a *Agent, r *round) ([]promptRequest, error) {
	all, err := a.conversation(ctx, r)
	if err != nil {
		return nil, err
	}
	s, err := a.post(ctx, a.opt.URL, a.ndjsonBody(ctx, r, all), "application/x-ndjson", nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	n := &ndjsonReader{a: a, out: r.out}
	first, finished := true, false
	err = s.lines(func(line []byte, truncated bool) (done bool, err error) {
		if truncated && line[0] == '{' && !json.Valid(line) {
			return false, a.broken(nil)
		}
		finished, err = n.handleLine(ctx, line, first)
		first = false
		return finished, err
	})
	if err == nil && !finished {
		err = a.broken(nil)
	}
	return n.prompts, err
}

func (a *Agent) ndjsonBody(ctx context.Context, r *round, all []message) map[string]any {
	ref := r.turn.Ref()
	body := map[string]any{}
	maps.Copy(body, a.opt.Extra)
	maps.Copy(body, map[string]any{
		"protocol": "parley.ndjson/1", "agent": r.turn.Agent, "session_id": ref.Session, "turn_id": ref.Turn, "attempt": ref.Attempt,
		"round": r.n, "text": r.turn.Text(), "trigger": r.turn.Trigger, "messages": a.chatMessages(ctx, r.turn, all),
	})
	if r.turn.Workstream != "" {
		body["workstream_id"] = r.turn.Workstream
	}
	if len(r.answers) > 0 {
		var answers []ndjsonAnswer
		for _, one := range r.answers {
			answers = append(answers, one.ndjson())
		}
		body["answers"] = answers
	}
	if past := r.turn.Past(); len(past) > 0 {
		body["events"] = past
	}
	var open []openBlock
	for _, b := range r.turn.Open() {
		open = append(open, openBlock{b.Kind, b.Text})
	}
	if len(open) > 0 {
		body["open"] = open
	}
	return body
}

func (p *promptAnswer) ndjson() ndjsonAnswer {
	out := ndjsonAnswer{RequestID: p.id, Outcome: "answered"}
	switch b := p.body.(type) {
	case chat.UserInputResponse:
		out.Text, out.Values = b.Text, b.Values
	case chat.UserApprovalResponse:
		for _, d := range b.Decisions {
			d.CallID = endpointCallID(d.CallID)
			out.Decisions = append(out.Decisions, d)
		}
	case chat.UserPermissionResponse:
		out.Granted, out.Denied = b.Granted, b.Denied
	default:
		if out.Outcome = "withdrawn"; errors.Is(p.err, agent.ErrExpired) {
			out.Outcome = "expired"
		}
	}
	return out
}

// ndjsonReader handles the lines of one answer.
type ndjsonReader struct {
	a       *Agent
	out     *output
	prompts []promptRequest
}

// plainEvents are the types of lines that are stored as the event they name.
var plainEvents = []string{
	"agent.status", "agent.plan", "agent.usage", "agent.error", "agent.trace", "agent.artifact", "agent.share", "agent.tool_progress",
}

// handleLine handles one line; done means that the answer is complete.
func (n *ndjsonReader) handleLine(ctx context.Context, b []byte, first bool) (done bool, err error) {
	var l ndjsonLine
	if err := json.Unmarshal(b, &l); err != nil {
		return false, n.a.unreadable("a line that is no JSON object with a type", err)
	}
	typ := strings.TrimPrefix(l.Type, "agent.")
	switch typ {
	case "text":
		return false, n.out.text(ctx, l.Text)
	case "thinking":
		return false, n.out.think(ctx, l.Text)
	case "break":
		return false, n.out.endBlock(ctx)
	case "tool_call":
		return false, n.out.call(ctx, l.CallID, l.Tool, l.Params)
	case "tool_result":
		return false, n.out.result(ctx, l.CallID, l.Result, "")
	case "tool_error":
		return false, n.out.result(ctx, l.CallID, nil, cmp.Or(errorField(l.Error), "the tool failed without a reason"))
	case "continue":
		if !first {
			return false, n.a.unreadable("continue is not its first line", nil)
		}
		return false, n.out.continueLast(ctx)
	case "input_request", "approval_request", "permission_request":
		return false, n.addPrompt(ctx, "agent."+typ, b, l.RequestID)
	case "launch_workstream":
		return false, n.launch(ctx, b)
	case "done":
		return true, nil
	case "fail":
		return false, n.a.reported(cmp.Or(errorField(l.Error), l.Message))
	case "ping":
		return false, nil
	case "":
		return false, n.a.unreadable("a line without a type", nil)
	}
	if name := "agent." + typ; slices.Contains(plainEvents, name) {
		return false, n.storeEvent(ctx, name, b)
	}
	return false, n.a.unreadable("a line of type "+text.Clip(l.Type, 40)+", which is not one of text, thinking, tool_call, tool_result, tool_error, input_request, approval_request, permission_request, launch_workstream, status, plan, usage, artifact, error, done, fail", nil)
}

func (n *ndjsonReader) storeEvent(ctx context.Context, name string, b []byte) error {
	body, err := n.eventBody(name, b)
	if err != nil {
		return err
	}
	switch e := body.(type) {
	case chat.AgentUsage:
		n.out.usage = append(n.out.usage, e)
		return nil
	case chat.AgentToolProgress:
		if e.CallID != "" {
			e.CallID = n.out.sessionCallID(e.CallID)
			body = e
		}
	}
	_, err = n.out.store(ctx, body)
	return err
}

// eventBody reads a line as the payload of an event. "type" is the type of the
// line; artifacts have artifact_type for their own.
func (n *ndjsonReader) eventBody(name string, b []byte) (chat.Body, error) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(b, &fields) // handleLine has read it as an object
	delete(fields, "type")
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	d := chat.Draft{Type: name, Payload: rest}
	if err := d.Normalize(); err != nil {
		return nil, n.a.unreadable(chat.Public(err).Msg, err)
	}
	return d.Body, nil
}

// addPrompt adds a prompt of the round. The session chooses the request id,
// because an endpoint may use the same one in every turn.
func (n *ndjsonReader) addPrompt(ctx context.Context, name string, b []byte, id string) error {
	if len(n.prompts) >= maxPrompts {
		return n.a.tooManyPrompts()
	}
	body, err := n.eventBody(name, b)
	if err != nil {
		return err
	}
	switch q := body.(type) {
	case chat.AgentInputRequest:
		q.RequestID = ""
		if q.InputType == chat.InputNotification {
			_, err := n.out.store(ctx, q)
			return err
		}
		body = q
	case chat.AgentApprovalRequest:
		q.RequestID = ""
		for i := range q.Calls {
			q.Calls[i].CallID = n.out.sessionCallID(q.Calls[i].CallID)
		}
		body = q
	case chat.AgentPermissionRequest:
		q.RequestID = ""
		body = q
	}
	n.prompts = append(n.prompts, promptRequest{id: id, body: body})
	return nil
}

func (n *ndjsonReader) launch(ctx context.Context, b []byte) error {
	var l chat.Launch
	if err := json.Unmarshal(b, &l); err != nil {
		return n.a.unreadable("launch_workstream", err)
	}
	if err := n.out.endBlock(ctx); err != nil {
		return err
	}
	n.out.steps++
	_, err := n.out.turn.Launch(ctx, l)
	return err
}
