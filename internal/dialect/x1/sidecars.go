package x1

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// sidecarSessions caches the sessions that have a sidecar. Their agent runs behind the
// sidecar, so no agent of the server answers, and user messages are published on input.
// The session's metadata has x1.sidecar and x1.agent_id for clients. The server itself
// uses [chat.Session.ServedBy], which clients cannot write.
type sidecarSessions struct {
	d *Dialect

	mu    sync.Mutex
	known map[chat.SessionID]*sidecarSession
}

// maxSidecarSessions bounds the sessions whose replayFilter is in memory; each may
// take 100 KB.
const maxSidecarSessions = 1000

// sidecarSession is a session with a sidecar. agent, replay and epoch belong to the
// goroutine that handles the session's messages.
type sidecarSession struct {
	agent  string        // its name; "" when unknown
	replay *replayFilter // what its publisher sent without ids; nil until something came in

	epoch    int64 // of the newest sidecar
	epochKey string

	mu        sync.Mutex
	delivered []delivered     // the latest user events, to recognise their echo
	sent      map[string]bool // client ids of events that are being stored here; nil on a single server
	moved     bool            // the publisher has sent an event to another node of the cluster
}

// sending notes an event that this node is storing, until done is called.
func (at *sidecarSession) sending(clientID string) (done func()) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.sent == nil {
		return func() {}
	}
	at.sent[clientID] = true
	return func() {
		at.mu.Lock()
		defer at.mu.Unlock()
		delete(at.sent, clientID)
	}
}

// current reports whether replay and epoch are those of the log, as far as this node has it.
func (at *sidecarSession) current() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	moved := at.moved
	at.moved = false
	return at.replay != nil && !moved
}

// stored takes stored events. In a cluster a publisher may connect to another node and come back: what this node knows of it
// is then read again.
func (a *sidecarSessions) stored(id chat.SessionID, entries []core.Entry) {
	if a.d.opt.Owns == nil {
		return
	}
	a.mu.Lock()
	at := a.known[id]
	a.mu.Unlock()
	if at == nil {
		return
	}
	for i := range entries {
		if entries[i].Piece != nil {
			continue
		}
		e, err := entries[i].Fact.Event()
		if err != nil || e.Via != via || !hasNoID(&e) && e.Type != AttachedType {
			continue
		}
		at.mu.Lock()
		at.moved = at.moved || !at.sent[e.ClientID]
		at.mu.Unlock()
	}
}

// delivered is a user event that was sent to the sidecar.
type delivered struct {
	id, request string
	text        Digest
	echoed      int // replayFilter.run+1 of the last echo; 0 for none
}

func newSidecarSessions(d *Dialect) *sidecarSessions {
	return &sidecarSessions{d: d, known: map[chat.SessionID]*sidecarSession{}}
}

// sidecarMeta is the field x1 of the metadata of such a session.
type sidecarMeta struct {
	Sidecar bool   `json:"sidecar"`
	AgentID string `json:"agent_id,omitempty"`
}

func sidecarOf(s *chat.Session) (m sidecarMeta) {
	var meta struct {
		X1 sidecarMeta `json:"x1"`
	}
	_ = json.Unmarshal(s.Metadata, &meta) // clients write metadata of any form
	meta.X1.AgentID = s.ServedBy
	return meta.X1
}

// withSidecarMeta adds the field x1 to metadata.
func withSidecarMeta(metadata json.RawMessage, m sidecarMeta) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &all); err != nil {
			return nil, err
		}
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	all["x1"] = raw
	return json.Marshal(all)
}

// find returns a session with a sidecar, or nil if it has none.
func (a *sidecarSessions) find(ctx context.Context, id chat.SessionID) (*sidecarSession, error) {
	a.mu.Lock()
	at := a.known[id]
	a.mu.Unlock()
	if at != nil {
		return at, nil
	}
	sess, err := a.d.opt.Sessions.Get(ctx, chat.Trusted, id)
	if m := sidecarOf(&sess); err == nil && m.Sidecar {
		at = a.add(id, m.AgentID)
	}
	return at, err
}

// add caches a session with a sidecar.
func (a *sidecarSessions) add(id chat.SessionID, agent string) *sidecarSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := a.known[id]; at != nil {
		return at
	}
	if len(a.known) >= maxSidecarSessions {
		for other := range a.known { // what it knows can be read again from the log
			delete(a.known, other)
			break
		}
	}
	at := &sidecarSession{agent: agent}
	if a.d.opt.Owns != nil {
		at.sent = map[string]bool{}
	}
	a.known[id] = at
	return at
}

func (a *sidecarSessions) forget(id chat.SessionID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, id)
}

// deliver publishes user events and stop requests on the input of a session's sidecar.
func (p *projector) deliver(ctx context.Context, id chat.SessionID, f chat.Fact, typ string) error {
	switch typ {
	case "user.message", "user.input_response", "user.approval_response", "user.permission_response", "turn.stop_requested":
	case "session.updated":
		if e, err := f.Event(); err == nil {
			p.d.disconnectFormerMembers(ctx, &e)
		}
		return nil
	default:
		return nil
	}
	at, err := p.d.sidecars.find(ctx, id)
	if at == nil || err != nil {
		return nil // no sidecar, or erased
	}
	e, err := f.Event()
	if err != nil {
		return nil
	}
	data, ok := fitInput(&e, int(p.conn.MaxPayload())-headroom)
	if !ok || e.Via == via && e.Actor.Kind == chat.Agent || hasNoID(&e) {
		return nil // the sidecar sent it
	}
	at.noteDelivered(&e)
	m := &nats.Msg{Data: data, Header: nats.Header{}}
	m.Header.Set(HeaderSequence, strconv.FormatUint(uint64(f.Seq), 10))
	// A message is also a sign of presence.
	poke := nats.NewMsg(Subject(id, Presence))
	poke.Header.Set(HeaderSequence, strconv.FormatUint(uint64(f.Seq), 10))
	_ = p.conn.PublishMsg(poke) // the message itself wakes the agent
	if p.d.opt.External && e.Via != via {
		// For sidecars of the same account. They have received what came by input.
		m.Subject = Subject(id, Input)
		if err := p.conn.PublishMsg(m); err != nil {
			return err
		}
	}
	m.Subject = outPrefix + subjectToken(id) + "." + string(Input)
	return p.conn.PublishMsg(m)
}

// maxDelivered bounds the user events that are kept: more than a replay buffer has.
const maxDelivered = 1024

// noteDelivered remembers a user event that is sent to the sidecar.
func (at *sidecarSession) noteDelivered(e *chat.Event) {
	text := ""
	switch b := e.Body.(type) {
	case chat.UserMessage:
		text = b.PlainText()
	case chat.UserInputResponse:
		if text = b.Text; text == "" && len(b.Values) > 0 {
			text = b.Values[0]
		}
	case chat.UserPermissionResponse:
		if raw, ok := permissionMessage(e); ok {
			text = (&Message{Payload: raw}).userFields().Text
		}
	default:
		return
	}
	if hasNoID(e) {
		return // replayFilter recognises its repetition
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if slices.ContainsFunc(at.delivered, func(o delivered) bool { return o.id == string(e.ID) }) {
		return
	}
	if len(at.delivered) >= maxDelivered {
		at.delivered = slices.Delete(at.delivered, 0, maxDelivered/4)
	}
	at.delivered = append(at.delivered, delivered{id: string(e.ID), request: chat.AnswerOf(e.Body), text: DigestOf(text, nil)})
}

// echo reports whether a message is the agent's echo of a user.message or
// user.input_response. An agent echoes an event once per run of its sidecar.
func (at *sidecarSession) echo(m *Message) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	s := m.userFields()
	text, run := DigestOf(s.Text, nil), at.replay.run+1
	for i := range at.delivered {
		t := &at.delivered[i]
		same := s.EventID != "" && s.EventID == t.id || t.text == text && (m.Type == "user.message" || s.RequestID == t.request)
		if same && t.echoed != run {
			t.echoed = run
			return true
		}
	}
	return false
}
