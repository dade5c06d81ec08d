package remote

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// line is one line of an answer. Fields that are not here are those of the event
// that its type names.
type line struct {
	Type   string          `json:"type"`
	Text   string          `json:"text"`
	CallID string          `json:"call_id"`
	Tool   string          `json:"tool"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	ID     string          `json:"request_id"`
	Reason string          `json:"message"`
}

// oldBlock is a block that an earlier attempt left open.
type oldBlock struct {
	Kind chat.BlockKind `json:"kind"`
	Text string         `json:"text"`
}

// ndjsonAnswer is what became of a question.
type ndjsonAnswer struct {
	RequestID string          `json:"request_id"`
	Outcome   string          `json:"outcome"` // answered, expired, withdrawn
	Text      string          `json:"text,omitempty"`
	Values    []string        `json:"values,omitempty"`
	Decisions []chat.Decision `json:"decisions,omitempty"`
	Granted   []string        `json:"granted,omitempty"`
	Denied    []string        `json:"denied,omitempty"`
}

// ndjson calls an endpoint that speaks Parley's own lines.
func ndjson(ctx context.Context, a *Agent, r *round) ([]question, error) {
	all, err := a.history(ctx, r.turn)
	if err != nil {
		return nil, err
	}
	if r.n > 1 {
		mine, err := ownMessages(ctx, r.turn, r.n)
		if err != nil {
			return nil, err
		}
		all = append(all, mine...)
	}
	s, err := a.post(ctx, a.opt.URL, a.ndjsonBody(ctx, r, all), "application/x-ndjson", nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	n := &lines{a: a, r: r, s: r.s}
	for first := true; ; first = false {
		b, err := s.line()
		if err == io.EOF {
			return nil, a.broken(nil)
		}
		if err != nil {
			return nil, err
		}
		if b = bytes.TrimSpace(b); len(b) == 0 {
			continue // a sign of life
		}
		if s.truncated && b[0] == '{' && !json.Valid(b) {
			return nil, a.broken(nil) // in the middle of a line
		}
		done, err := n.take(ctx, b, first)
		if done || err != nil {
			return n.asked, err
		}
	}
}

func (a *Agent) ndjsonBody(ctx context.Context, r *round, all []message) map[string]any {
	ref := r.turn.Ref()
	body := maps.Clone(a.opt.Extra)
	if body == nil {
		body = map[string]any{}
	}
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
	var open []oldBlock
	for _, b := range r.turn.Open() {
		open = append(open, oldBlock{b.Kind, b.Text})
	}
	if len(open) > 0 {
		body["open"] = open
	}
	return body
}

func (q *answered) ndjson() ndjsonAnswer {
	out := ndjsonAnswer{RequestID: q.id, Outcome: "answered"}
	switch b := q.body.(type) {
	case chat.UserInputResponse:
		out.Text, out.Values = b.Text, b.Values
	case chat.UserApprovalResponse:
		for _, d := range b.Decisions {
			d.CallID = foreign(d.CallID)
			out.Decisions = append(out.Decisions, d)
		}
	case chat.UserPermissionResponse:
		out.Granted, out.Denied = b.Granted, b.Denied
	default:
		if out.Outcome = "withdrawn"; q.expired() {
			out.Outcome = "expired"
		}
	}
	return out
}

// lines hears the lines of one answer.
type lines struct {
	a     *Agent
	r     *round
	s     *output
	asked []question
}

// kinds that an endpoint may say as they are.
var sayable = []string{
	"agent.status", "agent.plan", "agent.usage", "agent.error", "agent.trace", "agent.artifact", "agent.share", "agent.tool_progress",
}

// take hears one line; done means that the answer is complete.
func (n *lines) take(ctx context.Context, b []byte, first bool) (done bool, err error) {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return false, n.a.unreadable("a line that is no JSON object with a type", err)
	}
	typ := strings.TrimPrefix(l.Type, "agent.")
	switch typ {
	case "text":
		return false, n.s.text(ctx, l.Text)
	case "thinking":
		return false, n.s.think(ctx, l.Text)
	case "break":
		return false, n.s.endBlock(ctx)
	case "tool_call":
		return false, n.s.call(ctx, l.CallID, l.Tool, l.Params)
	case "tool_result":
		return false, n.s.result(ctx, l.CallID, l.Result, "")
	case "tool_error":
		why := errorField(l.Error)
		if why == "" {
			why = "the tool failed without a reason"
		}
		return false, n.s.result(ctx, l.CallID, nil, why)
	case "continue":
		if !first {
			return false, n.a.unreadable("continue is not its first line", nil)
		}
		return false, n.s.continueLast(ctx)
	case "input_request", "approval_request", "permission_request":
		return false, n.question(ctx, "agent."+typ, b, l.ID)
	case "launch_workstream":
		return false, n.launch(ctx, b)
	case "done":
		return true, nil
	case "fail":
		why := errorField(l.Error)
		if why == "" {
			why = l.Reason
		}
		return false, n.a.reported(why)
	case "ping":
		return false, nil
	}
	if name := "agent." + typ; slices.Contains(sayable, name) {
		body, err := payload(name, b)
		if err != nil {
			return false, n.a.unreadable(chat.Public(err).Msg, err)
		}
		if u, ok := body.(chat.AgentUsage); ok {
			n.s.usage = append(n.s.usage, u)
			return false, nil
		}
		if p, ok := body.(chat.AgentToolProgress); ok && p.CallID != "" {
			p.CallID = n.s.known(p.CallID)
			body = p
		}
		_, err = n.s.store(ctx, body)
		return false, err
	}
	if l.Type == "" {
		return false, n.a.unreadable("a line without a type", nil)
	}
	return false, n.a.unreadable("a line of type "+text.Clip(l.Type, 40)+", which is not one of text, thinking, tool_call, tool_result, tool_error, input_request, approval_request, permission_request, launch_workstream, status, plan, usage, artifact, error, done, fail", nil)
}

// payload reads a line as the payload of an event's type. The word type, which
// artifacts use too, is the line's own: they say artifact_type.
func payload(name string, b []byte) (chat.Body, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, err
	}
	delete(fields, "type")
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	d := chat.Draft{Type: name, Payload: rest}
	if err := d.Settle(); err != nil {
		return nil, err
	}
	return d.Body, nil
}

func (n *lines) question(ctx context.Context, name string, b []byte, id string) error {
	if len(n.asked) >= 32 {
		return n.a.unreadable("more than 32 questions at once", nil)
	}
	body, err := payload(name, b)
	if err != nil {
		return n.a.unreadable(chat.Public(err).Msg, err)
	}
	switch q := body.(type) {
	case chat.AgentInputRequest:
		// The session's own id: an endpoint may use the same one in every turn.
		q.RequestID = ""
		if q.InputType == chat.InputNotification {
			_, err := n.s.store(ctx, q)
			return err
		}
		body = q
	case chat.AgentApprovalRequest:
		q.RequestID = ""
		for i := range q.Calls {
			q.Calls[i].CallID = n.s.known(q.Calls[i].CallID)
		}
		body = q
	case chat.AgentPermissionRequest:
		q.RequestID = ""
		body = q
	}
	n.asked = append(n.asked, question{id: id, body: body})
	return nil
}

func (n *lines) launch(ctx context.Context, b []byte) error {
	var l chat.Launch
	if err := json.Unmarshal(b, &l); err != nil {
		return n.a.unreadable("launch_workstream", err)
	}
	if err := n.s.endBlock(ctx); err != nil {
		return err
	}
	n.s.steps++
	_, err := n.s.turn.Launch(ctx, l)
	return err
}
