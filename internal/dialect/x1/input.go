package x1

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// input appends a user message, an answer or a stop request.
func (d *Dialect) input(ctx context.Context, a *incoming) {
	if d.opt.External && a.msg.Header.Get(HeaderSequence) != "" {
		return // published by a server, stored already
	}
	m, err := decode(a.id, a.msg.Data)
	if err == nil && m.expired(d.opt.Now()) {
		d.dropped(a, "expired")
		return
	}
	if err == nil && m.Type == stopType {
		d.stop(ctx, a, &m)
		return
	}
	var e chat.Event
	if err == nil {
		if m.ClientID == "" {
			m.ClientID = a.msg.Header.Get(HeaderKey)
		}
		e, err = d.appendInput(ctx, a, &m)
	}
	if err != nil {
		d.refuse(ctx, a, err)
		return
	}
	d.accepted(a, &e)
}

// appendInput appends an input as an event.
func (d *Dialect) appendInput(ctx context.Context, a *incoming, m *Message) (e chat.Event, err error) {
	if !strings.HasPrefix(m.Type, "user.") {
		return e, chat.Errorf(chat.Invalid, "input takes user.message, user.input_response, the other user types and turn.stop_requested, not %s", text.Clip(m.Type, 64))
	}
	c, err := d.caller(a)
	if err != nil {
		return e, err
	}
	s := m.userFields()
	c = speaksFor(c, a, &s)
	if m.Type != "user.message" && a.agent {
		c = asAgent(c)
	}
	if m.Type == "user.input_response" {
		return d.answer(ctx, c, m, &s)
	}
	if m.Type == "user.message" && len(m.Payload) > 0 && m.Payload[0] == '"' {
		// A JSON string is a message, too.
		if m.Payload, err = json.Marshal(map[string]json.RawMessage{"text": m.Payload}); err != nil {
			return e, err
		}
	}
	draft := m.draft()
	err = d.retry(ctx, func() error {
		events, err := d.opt.Sessions.Append(ctx, c, a.id, []chat.Draft{draft})
		if chat.CodeOf(err) == chat.NotFound && !a.guest && m.Type == "user.message" {
			// A session begins with its first message.
			owner := d.opt.Main
			if _, _, err = d.opt.Sessions.Create(ctx, owner, chat.NewSession{ID: a.id, Title: title(s.Text)}); err == nil {
				events, err = d.opt.Sessions.Append(ctx, c, a.id, []chat.Draft{draft})
			}
		}
		if err == nil {
			e = events[0]
		}
		return err
	})
	return e, err
}

// speaksFor returns the caller with the user id of the message. A sender without a
// credential is trusted to name its user.
func speaksFor(c chat.Caller, a *incoming, s *userFields) chat.Caller {
	if id := cmp.Or(s.UserID, s.SenderID); !a.guest && id != "" && len(id) <= chat.MaxActorField {
		c.Actor = chat.Actor{Kind: chat.User, ID: id}
	}
	return c
}

// asAgent returns the caller as an agent: what a sidecar sends is never a person's
// consent.
func asAgent(c chat.Caller) chat.Caller {
	c.Actor, c.Agents = chat.Actor{Kind: chat.Agent, ID: c.Actor.ID}, nil
	return c
}

// stopType on input stops the session's agent. Sidecars receive the same type. x1 itself
// has no such type.
var stopType = chat.TurnStopRequested{}.Type()

// stop stops the running turn, or that of one workstream.
func (d *Dialect) stop(ctx context.Context, a *incoming, m *Message) {
	var ask struct {
		Reason     string      `json:"reason"`
		Workstream string      `json:"workstream_id"`
		Turn       chat.TurnID `json:"turn_id"`
	}
	if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &ask) != nil {
		d.refuse(ctx, a, chat.Errorf(chat.Invalid, "the payload of %s is {reason?, workstream_id?, turn_id?}", stopType))
		return
	}
	c, err := d.caller(a)
	var res chat.StopResult
	if err == nil {
		s := m.userFields()
		c = speaksFor(c, a, &s)
		err = d.retry(ctx, func() error {
			res, err = d.opt.Sessions.StopLate(ctx, c, a.id, cmp.Or(ask.Workstream, m.Workstream), ask.Reason, ask.Turn, time.Since(a.at))
			return err
		})
	}
	if err != nil {
		d.refuse(ctx, a, err)
		return
	}
	d.respond(a, Reply{Session: a.id, Stopped: &res.Stopped})
}

// answer answers a prompt of any kind. Approvals and permissions accept a text such as
// yes or no.
func (d *Dialect) answer(ctx context.Context, c chat.Caller, m *Message, s *userFields) (e chat.Event, err error) {
	ans := chat.Answer{Text: s.Text, Values: s.Values, ClientID: m.ClientID}
	request := s.RequestID
	if request == "" {
		if request, err = d.promptFor(ctx, c, m); err != nil {
			return e, err
		}
	}
	if len(s.Values) == 0 {
		p, err := d.opt.Sessions.Prompt(ctx, c, m.Session, request)
		if err != nil {
			return e, err
		}
		if p != nil && p.Input == nil {
			approve, ok := edge.ParseConsent(s.Text)
			if !ok {
				return e, chat.Errorf(chat.Invalid, "this prompt asks for consent: answer with a text such as approve or deny")
			}
			all := edge.Consent(p, approve)
			ans.Decisions, ans.Granted = all.Decisions, all.Granted
		}
	}
	err = d.retry(ctx, func() error {
		e, err = d.opt.Sessions.Answer(ctx, c, m.Session, request, ans)
		return err
	})
	return e, err
}

// promptFor is the request id of the prompt that an answer without one is for: that of the first answer if it is sent again,
// else that of the only open prompt.
func (d *Dialect) promptFor(ctx context.Context, c chat.Caller, m *Message) (string, error) {
	e, err := d.opt.Sessions.Sent(ctx, c, m.Session, m.ClientID)
	if err != nil {
		return "", err
	}
	if e != nil && chat.AnswerOf(e.Body) != "" {
		return chat.AnswerOf(e.Body), nil
	}
	st, err := d.opt.Sessions.State(ctx, c, m.Session)
	if err != nil {
		return "", err
	}
	switch len(st.Prompts) {
	case 0:
		return "", chat.Errorf(chat.Invalid, "no prompt is open in this session, so there is nothing to answer")
	case 1:
		return st.Prompts[0].RequestID, nil
	default:
		return "", chat.Errorf(chat.Invalid, "%d prompts are open; give the request_id of the one to answer", len(st.Prompts))
	}
}

// retry repeats a call while the store is unavailable, because senders do not repeat
// messages on NATS. It gives up when the server shuts down.
func (d *Dialect) retry(ctx context.Context, do func() error) error {
	d.inbound.mu.Lock()
	ending := d.inbound.ending
	d.inbound.mu.Unlock()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := do()
		switch chat.CodeOf(err) {
		case chat.Unavailable, chat.SlowDown:
		default:
			return err
		}
		if chat.CodeOf(err) == chat.SlowDown && wait > time.Second {
			return err // the limit will not be lifted soon
		}
		select {
		case <-time.After(wait):
		case <-ending:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// delta shows a preview of what an agent is writing.
func (d *Dialect) delta(ctx context.Context, a *incoming) {
	m, err := decode(a.id, a.msg.Data)
	var piece chat.Preview
	if err == nil {
		if err = json.Unmarshal(m.Payload, &piece); err != nil {
			err = chat.Errorf(chat.Invalid, "a delta's payload is {block, offset, text, kind?, workstream_id?}").Because(err)
		}
	}
	if err == nil {
		if m.Type == deltaType(chat.ThinkingBlock) {
			piece.Kind = chat.ThinkingBlock
		}
		piece.Attempt = m.Attempt
		var c chat.Caller
		if c, err = d.caller(a); err == nil {
			err = d.opt.Sessions.Preview(ctx, c, a.id, []chat.Preview{piece})
		}
	}
	if err != nil {
		d.refuse(ctx, a, err)
		return
	}
	d.respond(a, Reply{Session: a.id})
}

// history answers with stored events: as many as fit limit bytes, and at least one.
func (d *Dialect) history(ctx context.Context, a *incoming, limit int) {
	if a.msg.Reply == "" {
		return
	}
	var req HistoryRequest
	fail := func(err error) {
		d.respond(a, HistoryReply{Session: a.id, Events: []json.RawMessage{}, Error: problem(err)})
	}
	if len(a.msg.Data) > 0 {
		if err := json.Unmarshal(a.msg.Data, &req); err != nil {
			fail(chat.Errorf(chat.Invalid, "a history request is {after, limit}").Because(err))
			return
		}
	}
	if req.Limit == 0 {
		req.Limit = 100
	}
	if req.Limit < 1 || req.Limit > 1000 {
		fail(chat.Errorf(chat.Invalid, "limit is 1 to 1000"))
		return
	}
	c, err := d.caller(a)
	if err != nil {
		fail(err)
		return
	}
	sess, err := d.opt.Sessions.Get(ctx, c, a.id)
	if err != nil {
		fail(err)
		return
	}
	d.inbound.reads <- struct{}{}
	defer func() { <-d.inbound.reads }()
	facts, more, err := d.opt.Sessions.Read(ctx, c, a.id, chat.Range{After: req.After, Limit: req.Limit, MaxBytes: 128 << 10})
	if err != nil {
		fail(err)
		return
	}
	r := HistoryReply{Session: a.id, Events: make([]json.RawMessage, 0, len(facts)), More: more, Last: sess.Last}
	size := 0
	for i, f := range facts {
		data, err := fit(a.id, f, limit)
		if err != nil {
			fail(err)
			return
		}
		if size += len(data) + 1; i > 0 && size > limit {
			r.More = true
			break
		}
		r.Events = append(r.Events, data)
		r.Last = max(r.Last, f.Seq)
	}
	d.respond(a, r)
}

// title returns the beginning of a text on one line.
func title(text string) string {
	s := strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(s[:min(80, len(s))], "")
}
