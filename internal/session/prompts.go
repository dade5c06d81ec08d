package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// ask opens a prompt and gives it an id and an absolute deadline.
func (d *decision) ask(actor chat.Actor, draft chat.Draft, turn chat.TurnID) (chat.Event, error) {
	if len(d.state.Prompts) >= maxPrompts {
		return chat.Event{}, chat.Errorf(chat.SlowDown, "%d prompts are open in this session already", len(d.state.Prompts))
	}
	var body chat.Body
	var err error
	switch b := draft.Body.(type) {
	case chat.AgentInputRequest:
		b.RequestID, b.Deadline, err = d.openPrompt(b.RequestID, b.Timeout, b.Deadline)
		body = b
	case chat.AgentApprovalRequest:
		if b.Settled = d.state.Session.Settings.Approves(b) != nil; b.Settled {
			b.RequestID, b.Deadline, err = d.openPrompt(b.RequestID, 0, 0)
		} else {
			b.RequestID, b.Deadline, err = d.openPrompt(b.RequestID, b.Timeout, b.Deadline)
		}
		body = b
	case chat.AgentPermissionRequest:
		b.RequestID, b.Deadline, err = d.openPrompt(b.RequestID, b.Timeout, b.Deadline)
		body = b
	}
	if err != nil {
		return chat.Event{}, err
	}
	return d.enriched(actor, draft, body, turn)
}

// openPrompt returns the request id and the deadline of a new prompt: an id that the server issues if the agent gives none, and the
// earlier one of the timeout in seconds and the given deadline, 0 without both.
func (d *decision) openPrompt(id string, seconds float64, deadline chat.At) (string, chat.At, error) {
	switch {
	case id == "":
		id = d.nextID(chat.PromptPrefix)
	case len(id) > 128:
		return "", 0, chat.Errorf(chat.Invalid, "a request_id has at most 128 bytes")
	case d.used(id):
		return "", 0, errPromptUsed(id)
	}
	until := d.now + chat.At(seconds*1e6)
	switch {
	case seconds == 0 && deadline == 0:
		return id, 0, nil
	case deadline == 0:
	case deadline <= d.now:
		return "", 0, chat.Errorf(chat.Invalid, "the deadline %s has passed; give one in the future, or a timeout in seconds", deadline)
	case deadline > d.now+chat.MaxTimeout*1e6:
		return "", 0, chat.Errorf(chat.Invalid, "the deadline %s is more than %d seconds away", deadline, chat.MaxTimeout)
	case seconds == 0 || deadline < until:
		until = deadline
	}
	d.deadline = true
	return id, until, nil
}

// approve answers an approval request in the same commit if the session's settings
// approve it automatically. The agent does not wait, and the log has both the request
// and the answer.
func (d *decision) approve(asked *chat.Event) {
	if b, ok := asked.Body.(chat.AgentApprovalRequest); ok && b.Settled {
		answer := chat.UserApprovalResponse{RequestID: b.RequestID, Decisions: d.state.Session.Settings.Approves(b)}
		d.addSystem(answer, asked.Workstream, asked.Turn)
	}
}

// used reports whether a request id is not available: a prompt with this id is open or
// is asked in this decision, or the id has the form of the ids that the server issues in
// this session.
func (d *decision) used(request string) bool {
	if id, ok := chat.ParseID(chat.PromptPrefix, request); ok {
		if n, _, ok := id.Parts(); ok && n == d.state.Number {
			return true
		}
	}
	return d.state.Prompt(request) != nil ||
		slices.ContainsFunc(d.events, func(e chat.Event) bool { return requestOf(e.Body) == request })
}

// requestOf returns the request id of a prompt's body, or "".
func requestOf(b chat.Body) string {
	switch b := b.(type) {
	case chat.AgentInputRequest:
		return b.RequestID
	case chat.AgentApprovalRequest:
		return b.RequestID
	case chat.AgentPermissionRequest:
		return b.RequestID
	}
	return ""
}

func errPromptUsed(id string) error {
	return chat.Errorf(chat.Conflict, "request_id %q was used before in this session; every prompt needs its own", id)
}

// maxPrompts bounds the open prompts of a session.
const maxPrompts = 100

// enriched adds a draft whose body the server has completed.
func (d *decision) enriched(actor chat.Actor, draft chat.Draft, body chat.Body, turn chat.TurnID) (chat.Event, error) {
	full, err := draft.WithBody(body)
	if err != nil {
		return chat.Event{}, err
	}
	full.Payload = withDialectField(full.Payload, &draft)
	return *d.add(actor, full, turn), nil
}

// withDialectField copies the dialect's own fields from the sent draft to a payload.
// They are one member, named after the dialect.
func withDialectField(payload json.RawMessage, sent *chat.Draft) json.RawMessage {
	var own map[string]json.RawMessage
	if sent.Via == "" || json.Unmarshal(sent.Payload, &own) != nil || own[sent.Via] == nil || len(payload) < 3 {
		return payload
	}
	out := append(slices.Clone(payload[:len(payload)-1]), ',')
	out = append(json.AppendString(out, sent.Via), ':')
	return append(append(out, own[sent.Via]...), '}')
}

// errEnded means that a prompt is not open. Sessions.explainPrompt turns it into an
// error with the actor that answered.
type errEnded struct{ requestID string }

func (errEnded) Error() string { return "the prompt is not open any more" }

// mayAnswer returns an error if the caller may not answer a prompt. Approvals and
// permissions need a person, in every dialect, with a role in the session: a caller that
// is there only because it may serve the agent is the agent. Other prompts, including
// calls of tools that the sender of the message runs, may be answered by every caller
// except the agent that asks.
func mayAnswer(c chat.Caller, sess *chat.Session, p *chat.Prompt) error {
	switch {
	case consent(p) && c.MayServe(p.Agent) && sess.RoleOf(c.Actor) == "" && !c.Administers(sess.Workspace):
		return chat.Errorf(chat.Denied, "you may serve agent %q, so you cannot approve or permit what it asks; another person of the session can", p.Agent).With("request_id", p.RequestID)
	case consent(p) && !c.Person():
		return chat.Errorf(chat.Denied, "only people can approve and permit: this needs an actor of kind user with the scope user").
			With("request_id", p.RequestID)
	case c.Actor.Kind == chat.Agent && (c.Actor.ID == p.Agent || c.MayServe(p.Agent)):
		return chat.Errorf(chat.Denied, "agent %q asks this question and cannot answer it itself", p.Agent).With("request_id", p.RequestID)
	}
	return nil
}

// consent reports whether a prompt asks for permission or for approval of a call that
// the agent runs.
func consent(p *chat.Prompt) bool {
	return p.Permission != nil || p.Approval != nil && slices.ContainsFunc(p.Approval.Calls, func(c chat.ApprovalCall) bool { return !c.Client })
}

// answer adds the answer to an open prompt. The first valid answer closes the prompt.
func (d *decision) answer(c chat.Caller, draft chat.Draft) (chat.Event, error) {
	request := chat.AnswerOf(draft.Body)
	p := d.state.Prompt(request)
	if p == nil {
		return chat.Event{}, errEnded{request}
	}
	if err := mayAnswer(c, &d.state.Session, p); err != nil {
		return chat.Event{}, err
	}
	if p.Deadline != 0 && d.now >= p.Deadline {
		// The deadline applies even if Run has not closed the prompt yet.
		d.addSystem(chat.PromptClosed{RequestID: request, Reason: chat.Expired}, p.Workstream, p.Turn)
		return chat.Event{}, errLate{request}
	}
	body, err := p.Accept(draft.Body)
	if err != nil {
		return chat.Event{}, err
	}
	if draft.Workstream = p.Workstream; draft.Workstream != "" {
		defer d.addPhase(draft.Workstream, draft.Body, len(d.events))
	}
	return d.enriched(c.Actor, draft, body, p.Turn)
}

// errLate means that an answer came after the deadline.
type errLate struct{ requestID string }

func (errLate) Error() string { return "the deadline of the prompt has passed" }

// Answer answers a prompt of any kind. An invalid answer is refused with the reason, and
// the prompt stays open. An answer to a prompt that has ended is a conflict; the error
// has the actor and the time of the answer.
func (s *Sessions) Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error) {
	if s.opt.OtherNodes == nil {
		return s.answerHere(ctx, c, id, requestID, a)
	}
	res, err := s.call(ctx, &call{Method: callAnswer, Session: id, Caller: c, Request: sentText(requestID), Answer: &a})
	if err != nil {
		return chat.Event{}, err
	}
	return s.event(ctx, id, res.Sequences[0])
}

func (s *Sessions) answerHere(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error) {
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return chat.Event{}, err
	}
	defer r.release()
	an := &answering{caller: c, request: requestID, answer: a}
	if err := r.do(ctx, &request{rules: an}); err != nil {
		return chat.Event{}, s.explainPrompt(ctx, r.id, err)
	}
	return an.event, nil
}

// Prompt returns a prompt of the session, open or ended, nil if there is none with this id.
func (s *Sessions) Prompt(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string) (*chat.Prompt, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil {
		return nil, err
	}
	p, err := s.prompt(ctx, sess.ID, requestID)
	if p != nil || err != nil || !s.asksOthers(ctx) || s.opt.OtherNodes.Owns(sess.ID) {
		return p, err
	}
	caught := s.opt.OtherNodes.CatchUp(ctx, core.NumberFor(sess.ID, 0)) // another node may have stored it since
	if p, err = s.prompt(ctx, sess.ID, requestID); p == nil && err == nil && !caught {
		err = ErrBehind
	}
	return p, err
}

func (s *Sessions) prompt(ctx context.Context, id chat.SessionID, requestID string) (*chat.Prompt, error) {
	ref, ok, err := s.log.Prompt(ctx, id, requestID)
	if err != nil || !ok {
		return nil, err
	}
	asked, err := s.event(ctx, id, ref.Asked)
	if err != nil {
		return nil, err
	}
	if p, ok := chat.AsPrompt(&asked); ok {
		return &p, nil
	}
	return nil, nil
}

// answering holds the state of one Answer call.
type answering struct {
	caller  chat.Caller
	request string
	answer  chat.Answer
	known   *chat.Event  // the stored event with the same client id
	asked   *chat.Prompt // the prompt that known answered
	event   chat.Event
}

func (a *answering) lookUp(ctx context.Context, r *sequencer) error {
	a.known, a.asked = nil, nil
	if a.answer.ClientID == "" || r.state == nil {
		return nil
	}
	key, ok, err := r.sessions.log.ByClientID(ctx, r.id, a.caller.Actor.Key(), a.answer.ClientID)
	if err != nil || !ok {
		return err
	}
	e, err := r.sessions.event(ctx, r.id, key.Seq)
	if a.known = &e; err != nil || chat.AnswerOf(e.Body) != a.request {
		return err
	}
	a.asked, err = r.sessions.prompt(ctx, r.id, a.request)
	return err
}

// repeats reports whether the answer is the same as the stored answer e. The bodies are
// compared after validation against the prompt, because an option has several names.
func (a *answering) repeats(e *chat.Event) bool {
	if chat.AnswerOf(e.Body) != a.request {
		return false
	}
	if a.asked == nil {
		return true // answered in this commit: the prompt is no longer in the state
	}
	body, err := a.answer.Body(a.asked)
	if err != nil {
		return false
	}
	now, err1 := json.Marshal(body)
	then, err2 := json.Marshal(e.Body)
	return err1 == nil && err2 == nil && bytes.Equal(now, then)
}

func (a *answering) decide(d *decision) error {
	if err := a.caller.May(&d.state.Session, chat.Answerer); err != nil {
		return err
	}
	known := a.known
	if e, _, ok := d.repeated(a.caller.Actor, a.answer.ClientID); ok {
		known = &e
	}
	if known != nil {
		// A retry of the accepted answer returns the same event.
		if !a.repeats(known) {
			return errReused(a.answer.ClientID, known.Seq)
		}
		a.event = *known
		return nil
	}
	p := d.state.Prompt(a.request)
	if p == nil {
		return errEnded{a.request}
	}
	body, err := a.answer.Body(p)
	if err != nil {
		return err
	}
	draft := chat.NewDraft(body).As(a.answer.ClientID)
	if err := draft.Normalize(); err != nil {
		return err
	}
	a.event, err = d.draft(a.caller, draft)
	return err
}

// explainPrompt turns errLate and errEnded into errors for clients.
func (s *Sessions) explainPrompt(ctx context.Context, id chat.SessionID, err error) error {
	if late, ok := errors.AsType[errLate](err); ok {
		return chat.Errorf(chat.Conflict, "the deadline of the prompt has passed").WithReason(chat.PromptEnded).
			With("request_id", late.requestID).With("reason", chat.Expired)
	}
	ended, ok := errors.AsType[errEnded](err)
	if !ok {
		return err
	}
	ref, found, lerr := s.log.Prompt(ctx, id, ended.requestID)
	if lerr != nil {
		return lerr
	}
	if !found || ref.Ended == 0 {
		return chat.Errorf(chat.NotFound, "this session has no prompt %q", ended.requestID).With("request_id", ended.requestID)
	}
	e, lerr := s.event(ctx, id, ref.Ended)
	if lerr != nil {
		return lerr
	}
	base := chat.Errorf(chat.Conflict, "this prompt was answered already by %s", cmp.Or(e.Actor.Name, e.Actor.ID))
	if b, ok := e.Body.(chat.PromptClosed); ok {
		base = chat.Errorf(chat.Conflict, "this prompt is closed: %s", b.Reason).With("reason", b.Reason)
	} else {
		base = base.With("answered_by", e.Actor).With("answered_at", e.At)
	}
	return base.WithReason(chat.PromptEnded).With("request_id", ended.requestID).With("sequence", e.Seq)
}

// WithdrawPrompt closes a prompt of a running turn whose answer the agent no longer
// needs. A prompt that has ended is not changed.
func (s *Sessions) WithdrawPrompt(ctx context.Context, ref chat.TurnRef, requestID string) error {
	_, err := s.call(ctx, &call{Method: callWithdraw, Session: ref.Session, Turn: ref, Request: sentText(requestID)})
	return err
}

func (s *Sessions) withdrawHere(ctx context.Context, ref chat.TurnRef, requestID string) error {
	return s.system(ctx, ref.Session, func(d *decision) error {
		if _, _, err := d.turn(ref); err != nil {
			return err
		}
		d.closePrompts(func(p *chat.Prompt) bool { return p.Turn == ref.Turn && p.RequestID == requestID })
		return nil
	})
}

// closePrompts withdraws the open prompts for which match returns true.
func (d *decision) closePrompts(match func(*chat.Prompt) bool) {
	for _, p := range append([]*chat.Prompt(nil), d.state.Prompts...) {
		if match(p) {
			d.addSystem(chat.PromptClosed{RequestID: p.RequestID, Reason: chat.Withdrawn}, p.Workstream, p.Turn)
		}
	}
}
