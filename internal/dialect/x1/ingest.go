package x1

import (
	"cmp"
	"context"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// ingest appends what the publisher of a session sends on events and archive. A message
// with a client_id is stored once by that id; for the others see replayFilter.
func (d *Dialect) ingest(ctx context.Context, conn *nats.Conn, run []incoming) {
	id := run[0].id
	at, err := d.sidecarSession(ctx, &run[0])
	if err != nil {
		for i := range run {
			d.refuse(ctx, &run[i], err)
		}
		return
	}
	if err := d.recallReplay(ctx, id, at); err != nil {
		for i := range run {
			d.refuse(ctx, &run[i], err)
		}
		return
	}
	in := &ingestBatch{d: d, conn: conn, at: at, id: id}
	for i := range run {
		in.take(ctx, &run[i])
	}
	in.flush(ctx)
	if in.notStored {
		at.replay = nil // it is read again from the log, which has not got these events
	}
}

// sidecarSession returns the session of a publisher and creates it if needed. The
// publisher is its agent, so no agent of the server answers.
func (d *Dialect) sidecarSession(ctx context.Context, a *incoming) (*sidecarSession, error) {
	if a.id.System() {
		return nil, chat.Errorf(chat.Denied, "this is a system session: clients cannot publish for it")
	}
	at, err := d.sidecars.find(ctx, a.id)
	if at != nil && err == nil {
		return at, nil
	}
	c, cerr := d.caller(a)
	if cerr != nil {
		return nil, cerr
	}
	m, _ := Decode(a.id, a.msg.Data) // take refuses a bad one
	meta := sidecarMeta{Sidecar: true, AgentID: agentNamed(&c, a, &m)}
	if chat.CodeOf(err) == chat.NotFound && !a.guest {
		metadata, merr := withSidecarMeta(nil, meta)
		if merr != nil {
			return nil, merr
		}
		err = d.retry(ctx, func() error {
			_, _, err := d.opt.Sessions.Create(ctx, c, chat.NewSession{ID: a.id, Agent: chat.NoAgent, Metadata: metadata, ServedBy: meta.AgentID})
			return err
		})
		if err == nil {
			d.sidecars.forget(a.id)
			return d.sidecars.set(a.id, true, meta.AgentID), nil
		}
	}
	if err != nil {
		return nil, err
	}
	// The session exists; from now on it has a sidecar.
	if m.ClientID != "" && m.Turn != "" {
		// A publisher that answers a turn of the server leaves the session as it is.
		return &sidecarSession{agent: meta.AgentID}, nil
	}
	sess, err := d.opt.Sessions.Get(ctx, c, a.id)
	if err != nil {
		return nil, err
	}
	if err := mayServe(c, &sess); err != nil {
		return nil, err
	}
	metadata, err := withSidecarMeta(sess.Metadata, meta)
	if err != nil {
		return nil, chat.Errorf(chat.Conflict, "the session's metadata cannot name its sidecar").Because(err)
	}
	none := chat.NoAgent
	update := chat.SessionUpdated{Metadata: metadata}
	if sess.Agent != none {
		update.Agent = &none
		if meta.AgentID == "" {
			meta.AgentID = sess.Agent
		}
	}
	if meta.AgentID != "" {
		update.ServedBy = &meta.AgentID
	}
	if !sess.RoleOf(c.Actor).Includes(chat.Answerer) && !c.Administers(sess.Workspace) {
		// The caller may answer as the session's agent, and that name is removed.
		members := append(slices.Clone(sess.Members), chat.Member{Actor: c.Actor, Role: chat.Answerer})
		update.Members = &members
	}
	if err := d.update(ctx, a.id, update); err != nil {
		return nil, err
	}
	d.sidecars.forget(a.id)
	return d.sidecars.set(a.id, true, meta.AgentID), nil
}

// update changes a session's record as the server.
func (d *Dialect) update(ctx context.Context, id chat.SessionID, u chat.SessionUpdated) error {
	return d.retry(ctx, func() error {
		_, err := d.opt.Sessions.Update(ctx, chat.Trusted, id, u)
		return err
	})
}

// mayServe returns an error if the caller's sidecar may not answer in a session: it acts
// as the agent that the session names, or that answered there before.
func mayServe(c chat.Caller, s *chat.Session) error {
	agent := s.Agent
	if agent == chat.NoAgent {
		agent = s.ServedBy
	}
	switch {
	case !c.Has(chat.ScopeAgent):
		return chat.Errorf(chat.Denied, "a sidecar of a session needs the scope agent")
	case agent != "" && !c.MayServe(agent):
		return chat.Errorf(chat.Denied, "this session is answered by agent %q: %s", agent, c.Serves())
	}
	return nil
}

// agentNamed is the agent_id of a session.started, "" for none. A name that the login
// may not serve does not count; an agent's login then gives the name.
func agentNamed(c *chat.Caller, a *incoming, m *Message) string {
	var boot struct {
		AgentID string `json:"agent_id"`
	}
	if m.Type != "session.started" || json.Unmarshal(m.Payload, &boot) != nil {
		return ""
	}
	if a.guest && !c.MayServe(boot.AgentID) {
		if boot.AgentID = ""; c.Actor.Kind == chat.Agent {
			boot.AgentID = c.Actor.ID
		}
	}
	if chat.CheckAgentName(boot.AgentID) != nil {
		return ""
	}
	return boot.AgentID
}

// setAgentName stores the name of a session's agent when the agent sends it: grants are
// given by name.
func (in *ingestBatch) setAgentName(ctx context.Context, name string) error {
	if name == "" || in.at.agent != "" {
		return nil
	}
	sess, err := in.d.opt.Sessions.Get(ctx, chat.Trusted, in.id)
	if err != nil {
		return err
	}
	metadata, err := withSidecarMeta(sess.Metadata, sidecarMeta{Sidecar: true, AgentID: name})
	if err != nil {
		return chat.Errorf(chat.Conflict, "the session's metadata cannot name its agent").Because(err)
	}
	err = in.d.update(ctx, in.id, chat.SessionUpdated{Metadata: metadata, ServedBy: &name})
	if err == nil {
		in.at.agent = name
	}
	return err
}

// recallReplay reads from the log which events the session's publisher has sent.
func (d *Dialect) recallReplay(ctx context.Context, id chat.SessionID, at *sidecarSession) error {
	if at.replay != nil {
		return nil
	}
	events, err := d.newestEvents(ctx, id, maxStored)
	if err != nil {
		return err
	}
	replay := newReplayFilter()
	for i := range events {
		replay.recall(&events[i])
		at.noteDelivered(&events[i])
	}
	if err := d.recallEpoch(ctx, id, at); err != nil {
		return err
	}
	at.replay = replay
	return nil
}

// ingestBatch collects the drafts of adjacent messages.
type ingestBatch struct {
	d         *Dialect
	conn      *nats.Conn
	at        *sidecarSession
	id        chat.SessionID
	waiting   []*incoming
	drafts    []chat.Draft
	caller    chat.Caller
	notStored bool // an event could not be stored now, but may be later
}

// take decides what happens with one message.
func (in *ingestBatch) take(ctx context.Context, a *incoming) {
	m, err := Decode(in.id, a.msg.Data)
	var c chat.Caller
	if err == nil {
		c, err = in.d.caller(a)
	}
	if err != nil {
		in.d.refuse(ctx, a, err)
		return
	}
	if transient(m.Type) {
		in.at.replay.skip(&m)
		in.hint(a, m)
		return
	}
	if !a.guest {
		c.Actor = chat.Actor{Kind: chat.Agent, ID: cmp.Or(in.at.agent, "x1")}
	}
	draft := m.draft()
	if m.Type == "session.started" {
		draft.Type = startedType
	}
	if m.ClientID == "" {
		why, err := in.repeated(ctx, a, &m, &draft)
		if err != nil {
			in.d.refuse(ctx, a, err)
			return
		}
		if why != "" {
			in.d.dropped(a, why)
			return
		}
	}
	err = draft.Normalize()
	if err == nil {
		err = in.at.checkEpoch(&m)
	}
	if err == nil {
		err = in.setAgentName(ctx, agentNamed(&c, a, &m))
	}
	if err != nil {
		in.refuse(ctx, a, err)
		return
	}
	if m.Type == AttachedType {
		in.attach(ctx, a, c, &m, draft)
		return
	}
	if chat.AnswerOf(draft.Body) != "" && a.guest {
		c.Scopes = []chat.Scope{chat.ScopeAgent} // what a sidecar sends is not a person's consent
	}
	if u, ok := draft.Body.(chat.UserMessage); ok && !a.guest {
		c.Actor = chat.Actor{Kind: chat.User, ID: cmp.Or(u.UserID, "x1")}
	}
	if len(in.drafts) > 0 && in.caller.Actor != c.Actor {
		in.flush(ctx)
	}
	in.caller = c
	in.waiting = append(in.waiting, a)
	in.drafts = append(in.drafts, draft)
}

// repeated tells why a message without an id is not stored: it is a copy, an echo or
// a repetition. To the draft of any other it gives an idempotency key.
func (in *ingestBatch) repeated(ctx context.Context, a *incoming, m *Message, draft *chat.Draft) (why string, err error) {
	r, now := in.at.replay, in.d.opt.Now()
	if r.copied(a.msg.Data) {
		return "replay", nil
	}
	r.count(m, now)
	if echo, err := in.echo(ctx, m); echo || err != nil {
		return "echo", err
	}
	content := DigestOf(m.Type, m.Payload)
	if r.repeated(m, content) {
		return "replay", nil
	}
	draft.ClientID = r.key(m, content, now.UnixNano())
	if sequenceOf(m) >= 0 {
		r.add(m.Type, content)
	}
	return "", nil
}

// echo reports whether a message is the agent's echo of a user event. With an external
// NATS the agent may have received the event before deliver noted it; then it is in
// the log.
func (in *ingestBatch) echo(ctx context.Context, m *Message) (bool, error) {
	if m.Type != "user.message" && m.Type != "user.input_response" {
		return false, nil
	}
	if in.at.echo(m) {
		return true, nil
	}
	var events []chat.Event
	err := in.d.retry(ctx, func() (err error) {
		events, err = in.d.newestEvents(ctx, in.id, 64)
		return err
	})
	if err != nil {
		return false, err
	}
	for i := range events {
		in.at.noteDelivered(&events[i])
	}
	return in.at.echo(m), nil
}

// hint publishes a transient message on delta. It is not stored. The copy on archive
// is not published again.
func (in *ingestBatch) hint(a *incoming, m Message) {
	m.Sequence = nil
	if b, err := json.Marshal(m); err == nil && a.kind == Events {
		_ = in.conn.Publish(in.d.outgoing(in.id, Delta), b) // a lost hint does no harm
	}
	in.d.dropped(a, "transient")
}

// flush appends the collected drafts in one commit, or one by one when that is refused.
func (in *ingestBatch) flush(ctx context.Context) {
	if len(in.drafts) == 0 {
		return
	}
	drafts, waiting := in.drafts, in.waiting
	in.drafts, in.waiting = nil, nil
	events, err := in.append(ctx, drafts)
	if err == nil {
		for i := range events {
			in.d.accepted(waiting[i], &events[i])
		}
		return
	}
	for i := range drafts {
		if len(drafts) > 1 {
			events, err = in.append(ctx, drafts[i:i+1])
		}
		if err != nil {
			in.refuse(ctx, waiting[i], err)
			continue
		}
		in.d.accepted(waiting[i], &events[0])
	}
}

// refuse refuses a message that replayFilter counts as stored.
func (in *ingestBatch) refuse(ctx context.Context, a *incoming, err error) {
	switch chat.CodeOf(err) {
	case chat.Unavailable, chat.SlowDown, chat.Internal:
		in.notStored = true
	}
	in.d.refuse(ctx, a, err)
}

func (in *ingestBatch) append(ctx context.Context, drafts []chat.Draft) (events []chat.Event, err error) {
	err = in.d.retry(ctx, func() error {
		events, err = in.d.opt.Sessions.Append(ctx, in.caller, in.id, drafts)
		return err
	})
	return events, err
}
