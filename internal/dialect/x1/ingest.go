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
func (d *Dialect) ingest(ctx context.Context, conn *nats.Conn, a *incoming) {
	at, err := d.sidecarSession(ctx, a)
	if err == nil {
		err = d.recallReplay(ctx, a.id, at)
	}
	if err != nil {
		d.refuse(ctx, a, err)
		return
	}
	e, dropped, err := d.store(ctx, conn, a, at)
	switch code := chat.CodeOf(err); {
	case dropped != "":
		d.dropped(a, dropped)
	case err == nil:
		d.accepted(a, &e)
	default:
		if code == chat.Unavailable || code == chat.SlowDown || code == chat.Internal {
			at.replay = nil // it is read again from the log, which does not have this event
		}
		d.refuse(ctx, a, err)
	}
}

// store appends one message, or says why it is not stored, which is no error.
func (d *Dialect) store(ctx context.Context, conn *nats.Conn, a *incoming, at *sidecarSession) (e chat.Event, dropped string, err error) {
	m, err := decode(a.id, a.msg.Data)
	if err != nil {
		return e, "", err
	}
	c, err := d.caller(a)
	if err != nil {
		return e, "", err
	}
	if transient(m.Type) {
		at.replay.skip(&m)
		if a.kind == Events { // the copy on archive is not published again
			m.Sequence = nil
			if b, err := json.Marshal(m); err == nil {
				_ = conn.Publish(d.outgoing(a.id, Delta), b) // a lost hint does no harm
			}
		}
		return e, "transient", nil
	}
	draft := m.draft()
	if m.Type == "session.started" {
		draft.Type = startedType
	}
	if m.ClientID == "" {
		if dropped, err = d.repeated(ctx, a, at, &m, &draft); dropped != "" || err != nil {
			return e, dropped, err
		}
	}
	err = draft.Normalize()
	if err == nil {
		err = at.checkEpoch(&m)
	}
	if err == nil {
		err = d.setAgentName(ctx, a.id, at, agentNamed(&c, a, &m))
	}
	if err != nil {
		return e, "", err
	}
	if u, ok := draft.Body.(chat.UserMessage); ok && !a.guest {
		c.Actor = chat.Actor{Kind: chat.User, ID: cmp.Or(u.UserID, "x1")}
	} else if !a.guest {
		c.Actor = chat.Actor{Kind: chat.Agent, ID: cmp.Or(at.agent, "x1")}
	} else if chat.AnswerOf(draft.Body) != "" {
		c.Scopes = []chat.Scope{chat.ScopeAgent} // what a sidecar sends is not a person's consent
	}
	defer at.sending(draft.ClientID)()
	err = d.retry(ctx, func() error {
		events, err := d.opt.Sessions.Append(ctx, c, a.id, []chat.Draft{draft})
		if err == nil {
			e = events[0]
		}
		return err
	})
	if err == nil && m.Type == AttachedType {
		at.epoch, at.epochKey = m.Epoch, m.ClientID
	}
	return e, "", err
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
	m, _ := decode(a.id, a.msg.Data) // store refuses a bad one
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
			return d.sidecars.add(a.id, meta.AgentID), nil
		}
	}
	if err != nil {
		return nil, err
	}
	if m.ClientID != "" && m.Turn != "" {
		// A publisher that answers a turn of the server leaves the session as it is.
		return &sidecarSession{agent: meta.AgentID}, nil
	}
	return d.addSidecar(ctx, c, a.id, meta)
}

// addSidecar makes a session that exists one with a sidecar, whose caller is c.
func (d *Dialect) addSidecar(ctx context.Context, c chat.Caller, id chat.SessionID, meta sidecarMeta) (*sidecarSession, error) {
	sess, err := d.opt.Sessions.Get(ctx, c, id)
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
	if err := d.update(ctx, id, update); err != nil {
		return nil, err
	}
	return d.sidecars.add(id, meta.AgentID), nil
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
func (d *Dialect) setAgentName(ctx context.Context, id chat.SessionID, at *sidecarSession, name string) error {
	if name == "" || at.agent != "" {
		return nil
	}
	sess, err := d.opt.Sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return err
	}
	metadata, err := withSidecarMeta(sess.Metadata, sidecarMeta{Sidecar: true, AgentID: name})
	if err != nil {
		return chat.Errorf(chat.Conflict, "the session's metadata cannot name its agent").Because(err)
	}
	if err = d.update(ctx, id, chat.SessionUpdated{Metadata: metadata, ServedBy: &name}); err == nil {
		at.agent = name
	}
	return err
}

// recallReplay reads from the log which events the session's publisher has sent.
func (d *Dialect) recallReplay(ctx context.Context, id chat.SessionID, at *sidecarSession) error {
	if at.current() {
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

// repeated returns why a message without an id is not stored: it is a copy, an echo or
// a repetition. To the draft of any other it gives an idempotency key.
func (d *Dialect) repeated(ctx context.Context, a *incoming, at *sidecarSession, m *Message, draft *chat.Draft) (why string, err error) {
	r, now := at.replay, d.opt.Now()
	if r.copied(a.msg.Data) {
		return "replay", nil
	}
	r.count(m, now)
	if echo, err := d.echo(ctx, at, m); err != nil {
		return "", err
	} else if echo {
		return "echo", nil
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
func (d *Dialect) echo(ctx context.Context, at *sidecarSession, m *Message) (bool, error) {
	if m.Type != "user.message" && m.Type != "user.input_response" {
		return false, nil
	}
	if at.echo(m) {
		return true, nil
	}
	var events []chat.Event
	err := d.retry(ctx, func() (err error) {
		events, err = d.newestEvents(ctx, m.Session, 64)
		return err
	})
	if err != nil {
		return false, err
	}
	for i := range events {
		at.noteDelivered(&events[i])
	}
	return at.echo(m), nil
}
