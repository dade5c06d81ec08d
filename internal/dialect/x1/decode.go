package x1

import (
	"errors"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// maxDepth bounds how deep a message may be nested.
const maxDepth = 128

// decode reads an envelope from a subject of session id. NATS permissions cover the
// subject but not the body, so the session_id in the body must be the same.
func decode(id chat.SessionID, b []byte) (Message, error) {
	var m Message
	if err := wire.CheckJSON(b, maxDepth); err != nil {
		return m, chat.Errorf(chat.Invalid, "not an x1 message: it is not valid JSON, or nested too deeply").Because(err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
			return m, chat.Errorf(chat.Invalid, "not an x1 message: its %s cannot be a %s: it must be %s", wrong.Field, wrong.Value, wrong.Want).Because(err)
		}
		return m, chat.Errorf(chat.Invalid, "not an x1 message: session_id, timestamp, sequence, type and payload are needed").Because(err)
	}
	if m.Type == "" {
		return m, chat.Errorf(chat.Invalid, "not an x1 message: it has no type")
	}
	if m.Session != "" && m.Session != id {
		return m, chat.Errorf(chat.Invalid, "the message names another session than the subject it came on")
	}
	m.Session = id
	return m, nil
}

// expired reports whether expires_at has passed.
func (m *Message) expired(now time.Time) bool {
	return m.ExpiresAt != 0 && m.ExpiresAt < now.UnixMilli()
}

// draft returns the event that a message asks to append.
func (m *Message) draft() chat.Draft {
	payload := m.Payload
	if m.Type == usageType {
		payload = moveCached(payload, 1)
	}
	return chat.Draft{
		Type: m.Type, Payload: payload, ClientID: m.ClientID, Workstream: m.Workstream, Parent: m.Parent,
		Turn: m.Turn, Attempt: m.Attempt, Via: via,
	}
}

const usageType = "agent.usage"

// moveCached adds the cached tokens of an agent.usage to its input_tokens (sign 1) or
// subtracts them (sign -1): x1's agents count them apart, chat.Usage counts them as input.
func moveCached(payload json.RawMessage, sign int64) json.RawMessage {
	var u chat.Usage
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &u) != nil || json.Unmarshal(payload, &fields) != nil {
		return payload
	}
	cached := u.CacheReadTokens + u.CacheCreationTokens
	if cached <= 0 {
		return payload
	}
	fields["input_tokens"] = strconv.AppendInt(nil, max(0, u.InputTokens+sign*cached), 10)
	out, err := json.Marshal(fields)
	if err != nil {
		return payload
	}
	return out
}

// via marks events that came in by this dialect.
const via = "x1"

// startedType is the stored type of an agent's session.started: the session itself has
// begun already, and only the server writes session.started.
const startedType = "x1.session.started"

// transient reports whether events of this type are shown but never stored.
func transient(typ string) bool {
	return typ == "session.agent_thinking" || typ == "session.agent_thinking_cancelled"
}

// isPosted reports whether agents hand events of this type to their sidecar by HTTP;
// these are in no replay buffer.
func isPosted(typ string) bool {
	switch typ {
	case "agent.status", "agent.artifact", "agent.share", "agent.permission_request", "agent.message_to_caller":
		return true
	}
	return isStart(typ)
}

// isStart reports whether an agent sends this type when it starts. It is posted, too, but
// some agents have it in their buffers.
func isStart(typ string) bool { return typ == "session.started" || typ == startedType }

// userFields are the fields of user messages and answers that x1's programs send.
type userFields struct {
	Text        string   `json:"text"`
	Answer      string   `json:"answer"`
	RequestID   string   `json:"request_id"`
	Values      []string `json:"values"`
	UserID      string   `json:"user_id"`
	SenderID    string   `json:"sender_id"`
	EventID     string   `json:"event_id"`
	IsSynthetic bool     `json:"is_synthetic"`
}

func (m *Message) userFields() userFields {
	var s userFields
	_ = json.Unmarshal(m.Payload, &s) // fields of another type count as missing
	if s.Text == "" {
		s.Text = s.Answer
	}
	return s
}
