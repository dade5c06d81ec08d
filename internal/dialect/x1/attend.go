package x1

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// attendance knows which sessions are attended by a sidecar that is not ours:
// nobody answers them here, and what people say in them goes out on input. That a
// session is attended stands in its record, under metadata.x1.sidecar. The name of
// the agent stands there, too, for clients; what counts is [chat.Session.ServedBy],
// which clients cannot write.
type attendance struct {
	d *Dialect

	mu       sync.Mutex
	known    map[chat.SessionID]*attended // nil for sessions that are not
	sidecars int                          // those that are
}

// maxAttended bounds the attended sessions whose replayFilter is kept in memory; each may
// take some 100 KB.
const maxAttended = 1000

// attended is a session with a sidecar.
type attended struct {
	agent  string        // its name, "" when that is not known; like replay
	replay *replayFilter // what its publisher sent without ids, nil until something came in; belongs to the goroutine that handles the session's messages

	epoch    int64 // of the newest sidecar; like replay
	epochKey string

	mu   sync.Mutex
	told []told // user facts of late, so that their echo is no second fact
}

// told is a user fact that the sidecar was told.
type told struct {
	id, request string
	text        digest
	echoed      int // the life of the publisher that repeated it last, from 1 on; see replayFilter.run
}

func newAttendance(d *Dialect) *attendance {
	return &attendance{d: d, known: map[chat.SessionID]*attended{}}
}

// sidecarMeta is what stands in the metadata of an attended session.
type sidecarMeta struct {
	Sidecar bool   `json:"sidecar"`
	AgentID string `json:"agent_id,omitempty"`
}

func sidecarOf(s *chat.Session) (m sidecarMeta) {
	var meta struct {
		X1 sidecarMeta `json:"x1"`
	}
	_ = json.Unmarshal(s.Metadata, &meta) // other people's metadata may be anything
	meta.X1.AgentID = s.ServedBy
	return meta.X1
}

// withSidecar is metadata with the mark of a sidecar in it.
func withSidecar(metadata json.RawMessage, m sidecarMeta) (json.RawMessage, error) {
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

// find returns the attended session, nil when it is not attended.
func (a *attendance) find(ctx context.Context, id chat.SessionID) (*attended, error) {
	a.mu.Lock()
	at, ok := a.known[id]
	a.mu.Unlock()
	if ok {
		return at, nil
	}
	sess, err := a.d.opt.Sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return nil, err
	}
	m := sidecarOf(&sess)
	return a.set(id, m.Sidecar, m.AgentID), nil
}

// set remembers what is known of a session.
func (a *attendance) set(id chat.SessionID, sidecar bool, agent string) *attended {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := a.known[id]; at != nil {
		return at
	}
	if len(a.known) >= maxLanes { // what is not attended can be asked for again
		for other, at := range a.known {
			if at == nil {
				delete(a.known, other)
			}
		}
	}
	if !sidecar {
		a.known[id] = nil
		return nil
	}
	at := &attended{agent: agent}
	a.known[id] = at
	if a.sidecars++; a.sidecars > maxAttended {
		for other, old := range a.known { // what is known of it is in the log
			if old != nil && other != id {
				delete(a.known, other)
				a.sidecars--
				break
			}
		}
	}
	return at
}

func (a *attendance) forget(id chat.SessionID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[id] != nil {
		a.sidecars--
	}
	delete(a.known, id)
}

// renew looks at the session's record again the next time.
func (a *attendance) renew(id chat.SessionID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[id] == nil {
		delete(a.known, id)
	}
}

// deliver tells a session's sidecar what people said.
func (o *outlet) deliver(ctx context.Context, id chat.SessionID, f chat.Fact, typ string) error {
	switch typ {
	case "user.message", "user.input_response", "user.approval_response", "user.permission_response", "turn.stop_requested":
	case "session.updated", "session.started":
		o.p.d.attend.renew(id)
		if e, err := f.Event(); err == nil {
			o.p.d.recheck(ctx, &e)
		}
		return nil
	default:
		return nil
	}
	at, err := o.p.d.attend.find(ctx, id)
	if at == nil || err != nil {
		return nil // not attended, or erased
	}
	e, err := f.Event()
	if err != nil {
		return nil
	}
	data, ok := fitInput(&e, int(o.conn.MaxPayload())-headroom)
	if !ok || e.Via == via && e.Actor.Kind == chat.Agent || hasNoID(&e) {
		return nil // the sidecar said it itself
	}
	at.tell(&e)
	m := &nats.Msg{Data: data, Header: nats.Header{}}
	m.Header.Set(HeaderSequence, strconv.FormatUint(uint64(f.Seq), 10))
	// A person who speaks is present.
	poke := nats.NewMsg(Subject(id, Presence))
	poke.Header.Set(HeaderSequence, strconv.FormatUint(uint64(f.Seq), 10))
	_ = o.conn.PublishMsg(poke) // what was said wakes the agent anyhow
	if o.p.d.opt.External && e.Via != via {
		// Sidecars of the same account; what came by input they have heard.
		m.Subject = Subject(id, Input)
		if err := o.conn.PublishMsg(m); err != nil {
			return err
		}
	}
	m.Subject = outPrefix + Token(id) + "." + string(Input)
	return o.conn.PublishMsg(m)
}

// maxTold bounds what is remembered of user facts: more than a replay buffer has.
const maxTold = 1024

// tell remembers a fact that the sidecar is told.
func (at *attended) tell(e *chat.Event) {
	text := ""
	switch b := e.Body.(type) {
	case chat.UserMessage:
		text = b.PlainText()
	case chat.UserInputResponse:
		if text = b.Text; text == "" && len(b.Values) > 0 {
			text = b.Values[0]
		}
	case chat.UserPermissionResponse:
		if raw, ok := Synthetic(e); ok {
			text = (&Message{Payload: raw}).said().Text
		}
	default:
		return
	}
	if hasNoID(e) {
		return // its repetition is known by its place
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if slices.ContainsFunc(at.told, func(o told) bool { return o.id == string(e.ID) }) {
		return
	}
	if len(at.told) >= maxTold {
		at.told = slices.Delete(at.told, 0, maxTold/4)
	}
	at.told = append(at.told, told{id: string(e.ID), request: chat.AnswerOf(e.Body), text: digestOf(text, nil)})
}

// echo reports whether a message is only the agent's repetition of what it was
// told: a user.message or user.input_response. It repeats a fact once, and once more in each life of its sidecar. Like
// replay it belongs to one goroutine.
func (at *attended) echo(m *Message) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	s := m.said()
	text, life := digestOf(s.Text, nil), at.replay.run+1
	for i := range at.told {
		t := &at.told[i]
		same := s.EventID != "" && s.EventID == t.id || t.text == text && (m.Type == "user.message" || s.RequestID == t.request)
		if same && t.echoed != life {
			t.echoed = life
			return true
		}
	}
	return false
}
