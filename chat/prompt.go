package chat

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Prompt is a question that waits for an answer. Exactly one of Input,
// Approval and Permission is there.
type Prompt struct {
	RequestID  string                  `json:"request_id"`
	Seq        Seq                     `json:"sequence"`
	Turn       TurnID                  `json:"turn_id,omitempty"`
	Workstream string                  `json:"workstream_id,omitempty"`
	Agent      string                  `json:"agent,omitempty"` // the agent that asks
	AskedAt    At                      `json:"asked_at"`
	Deadline   At                      `json:"deadline,omitzero"`
	Input      *AgentInputRequest      `json:"input,omitempty"`
	Approval   *AgentApprovalRequest   `json:"approval,omitempty"`
	Permission *AgentPermissionRequest `json:"permission,omitempty"`
}

// AsPrompt returns the prompt that an event opens; ok is false when it opens
// none (a notification has no answer).
func AsPrompt(e *Event) (p Prompt, ok bool) {
	p = Prompt{Seq: e.Seq, Turn: e.Turn, Workstream: e.Workstream, Agent: e.Actor.ID, AskedAt: e.At}
	switch b := e.Body.(type) {
	case AgentInputRequest:
		if b.InputType == InputNotification {
			return p, false
		}
		p.RequestID, p.Deadline, p.Input = b.RequestID, b.Deadline, &b
	case AgentApprovalRequest:
		p.RequestID, p.Deadline, p.Approval = b.RequestID, b.Deadline, &b
	case AgentPermissionRequest:
		p.RequestID, p.Deadline, p.Permission = b.RequestID, b.Deadline, &b
	default:
		return p, false
	}
	return p, true
}

// AnswerOf returns the request that a body answers or closes, or "".
func AnswerOf(b Body) string {
	switch b := b.(type) {
	case UserInputResponse:
		return b.RequestID
	case UserApprovalResponse:
		return b.RequestID
	case UserPermissionResponse:
		return b.RequestID
	case PromptClosed:
		return b.RequestID
	}
	return ""
}

// Answer is what a client sends to answer a prompt, whatever its kind.
type Answer struct {
	Text      string     `json:"text,omitempty"`
	Values    []string   `json:"values,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
	Granted   *[]string  `json:"granted,omitempty"`
	Denied    []string   `json:"denied,omitempty"`
	Duration  string     `json:"duration,omitempty"`
	ClientID  string     `json:"client_id,omitempty"`
}

// Body turns the answer into the fact for this prompt. It reports why the
// answer does not fit; the prompt then stays open.
func (a Answer) Body(p *Prompt) (Body, error) {
	switch {
	case p.Approval != nil:
		if a.Decisions == nil {
			return nil, Errorf(Invalid, "this prompt asks for approval: answer with decisions [{call_id, approve}]")
		}
		return p.Accept(UserApprovalResponse{RequestID: p.RequestID, Decisions: a.Decisions})
	case p.Permission != nil:
		if a.Granted == nil {
			return nil, Errorf(Invalid, "this prompt asks for permission: answer with granted [scopes], empty to deny")
		}
		return p.Accept(UserPermissionResponse{RequestID: p.RequestID, Granted: *a.Granted, Denied: a.Denied, Duration: a.Duration})
	}
	return p.Accept(UserInputResponse{RequestID: p.RequestID, Text: a.Text, Values: a.Values})
}

// Accept checks an answer against what was asked and returns it in its stored
// form: option values instead of ids or labels, one decision per call, every
// scope granted or denied.
func (p *Prompt) Accept(b Body) (Body, error) {
	switch b := b.(type) {
	case UserInputResponse:
		if p.Input != nil {
			return p.acceptInput(b)
		}
	case UserApprovalResponse:
		if p.Approval != nil {
			return p.acceptApproval(b)
		}
	case UserPermissionResponse:
		if p.Permission != nil {
			return p.acceptPermission(b)
		}
	}
	return nil, Errorf(Invalid, "%s does not answer this prompt, which is %s", b.Type(), p.kind())
}

func (p *Prompt) kind() string {
	switch {
	case p.Approval != nil:
		return AgentApprovalRequest{}.Type()
	case p.Permission != nil:
		return AgentPermissionRequest{}.Type()
	}
	return AgentInputRequest{}.Type()
}

func (p *Prompt) acceptInput(b UserInputResponse) (Body, error) {
	in := p.Input
	required := in.Required == nil || *in.Required
	switch in.InputType {
	case InputText:
		if b.Text == "" && len(b.Values) == 1 {
			b.Text = b.Values[0]
		}
		b.Values = nil
		if required && strings.TrimSpace(b.Text) == "" {
			return nil, Errorf(Invalid, "an answer is required")
		}
		return b, nil
	case InputOAuth:
		return b, nil
	}

	chosen := b.Values
	if len(chosen) == 0 && b.Text != "" {
		chosen = in.split(b.Text)
	}
	b.Text, b.Values = "", nil
	for _, c := range chosen {
		o, ok := in.option(c)
		if !ok {
			return nil, Errorf(Invalid, "%q is not one of the options: %s", text.Clip(c, 80), in.offered())
		}
		if v := o.Answer(); !slices.Contains(b.Values, v) {
			b.Values = append(b.Values, v)
		}
	}
	if in.InputType == InputCheckbox {
		least := in.Min
		if required && least == 0 {
			least = 1
		}
		if len(b.Values) < least {
			return nil, Errorf(Invalid, "choose at least %d of: %s", least, in.offered())
		}
		if in.Max > 0 && len(b.Values) > in.Max {
			return nil, Errorf(Invalid, "choose at most %d of: %s", in.Max, in.offered())
		}
		return b, nil
	}
	if len(b.Values) > 1 {
		return nil, Errorf(Invalid, "choose one of: %s", in.offered())
	}
	if len(b.Values) == 0 && required {
		return nil, Errorf(Invalid, "an answer is required: choose one of: %s", in.offered())
	}
	return b, nil
}

// Answer is the value an option stands for.
func (o Option) Answer() string { return cmp.Or(o.Value, o.ID, o.Label) }

func (b *AgentInputRequest) option(s string) (Option, bool) {
	for _, match := range []func(Option) bool{
		func(o Option) bool { return o.Answer() == s },
		func(o Option) bool { return o.ID == s },
		func(o Option) bool { return o.Label == s },
	} {
		if i := slices.IndexFunc(b.Options, match); i >= 0 {
			return b.Options[i], true
		}
	}
	return Option{}, false
}

// split reads the choices out of one text, for clients that can send no more:
// one option, a JSON array, or options joined by commas.
func (b *AgentInputRequest) split(text string) []string {
	if _, ok := b.option(text); ok {
		return []string{text}
	}
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil {
		return list
	}
	if b.InputType == InputCheckbox {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		return list
	}
	return []string{text}
}

func (b *AgentInputRequest) offered() string {
	var names []string
	for i, o := range b.Options {
		if i == 12 {
			names = append(names, "…")
			break
		}
		names = append(names, text.Clip(o.Answer(), 40))
	}
	return strings.Join(names, ", ")
}

func (p *Prompt) acceptApproval(b UserApprovalResponse) (Body, error) {
	byCall := make(map[string]Decision, len(b.Decisions))
	for _, d := range b.Decisions {
		if d.CallID == "" && len(p.Approval.Calls) == 1 {
			d.CallID = p.Approval.Calls[0].CallID
		}
		if _, twice := byCall[d.CallID]; twice {
			return nil, Errorf(Invalid, "call %q is decided twice", text.Clip(d.CallID, 80))
		}
		switch d.Remember {
		case "", "once", "session":
		default:
			return nil, Errorf(Invalid, "remember is once or session, not %q", text.Clip(d.Remember, 40))
		}
		byCall[d.CallID] = d
	}
	decisions := make([]Decision, 0, len(p.Approval.Calls))
	for _, c := range p.Approval.Calls {
		d, ok := byCall[c.CallID]
		if !ok {
			return nil, Errorf(Invalid, "call %q is not decided: an answer decides every call of the prompt", text.Clip(c.CallID, 80))
		}
		delete(byCall, c.CallID)
		d.Params = json.NotNull(d.Params)
		if err := d.fits(&c); err != nil {
			return nil, err
		}
		decisions = append(decisions, d)
	}
	for id := range byCall {
		return nil, Errorf(Invalid, "call %q is not part of this prompt", text.Clip(id, 80))
	}
	b.Decisions = decisions
	return b, nil
}

// fits reports why a decision does not fit a call.
func (d *Decision) fits(c *ApprovalCall) error {
	switch {
	case d.Ran() && (!d.Approve || len(d.Result) > 0 && d.Error != ""):
		return Errorf(Invalid, "call %q: what was run is approved, and has a result or an error", text.Clip(c.CallID, 80))
	case d.Ran() && !c.Client:
		// The agent would run it a second time.
		return Errorf(Invalid, "call %q: the agent runs this tool itself; approve it or refuse it", text.Clip(c.CallID, 80))
	case c.Client && d.Approve && !d.Ran():
		return Errorf(Invalid, "call %q: the sender of the message runs this tool; answer with its result, or refuse it", text.Clip(c.CallID, 80))
	case len(d.Params) > 0 && d.Params[0] != '{' && (len(c.Params) == 0 || c.Params[0] == '{'):
		return Errorf(Invalid, "call %q: the arguments of a call are a JSON object, so the changed ones are, too", text.Clip(c.CallID, 80))
	}
	return nil
}

func (p *Prompt) acceptPermission(b UserPermissionResponse) (Body, error) {
	switch b.Duration {
	case "", "once", "session", "always":
	default:
		return nil, Errorf(Invalid, "duration is once, session or always, not %q", text.Clip(b.Duration, 40))
	}
	asked := p.Permission.Scopes
	for _, s := range append(slices.Clone(b.Granted), b.Denied...) {
		if !slices.Contains(asked, s) {
			return nil, Errorf(Invalid, "scope %q was not asked for; asked are: %s", text.Clip(s, 80), strings.Join(asked, ", "))
		}
	}
	granted, denied := []string{}, []string(nil)
	for _, s := range asked {
		if slices.Contains(b.Granted, s) && !slices.Contains(b.Denied, s) {
			granted = append(granted, s)
		} else {
			denied = append(denied, s)
		}
	}
	b.Granted, b.Denied = granted, denied
	return b, nil
}
