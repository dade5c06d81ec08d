package x1

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Headers of messages.
const (
	HeaderSequence = "Parley-Sequence" // of what the server itself puts on input: the event's number
	HeaderKey      = "Nats-Msg-Id"     // the sender's idempotency key of an input
	HeaderStatus   = "Parley-Status"   // of a provider's reply: what it would be in HTTP
)

// Message is the x1 envelope with the fields that Parley adds. A message that was
// not committed yet need not have a sequence.
type Message struct {
	Session   chat.SessionID  `json:"session_id"`
	Timestamp string          `json:"timestamp,omitempty"`
	Sequence  *int64          `json:"sequence,omitempty"`
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload"`

	ExpiresAt  int64        `json:"expires_at,omitempty"` // milliseconds since the epoch; later than that it is dropped
	ClientID   string       `json:"client_id,omitempty"`  // the sender's idempotency key
	Workstream string       `json:"workstream_id,omitempty"`
	Parent     chat.EventID `json:"parent_id,omitempty"`
	Turn       chat.TurnID  `json:"turn_id,omitempty"`
	Attempt    int          `json:"attempt,omitempty"`
	Epoch      int64        `json:"epoch,omitempty"` // of the sidecar that sends it; see AttachedType
}

// Reply answers whoever publishes with a reply subject.
type Reply struct {
	Session  chat.SessionID `json:"session_id,omitempty"`
	Sequence chat.Seq       `json:"sequence,omitempty"` // of the fact that it became, or became before
	ID       chat.EventID   `json:"id,omitempty"`
	Stopped  *bool          `json:"stopped,omitempty"` // of a stop: whether there was something to stop
	Dropped  string         `json:"dropped,omitempty"` // why it became no fact, when that is no error: expired, replay, echo, transient

	// As a JetStream publisher wants it.
	Stream string `json:"stream,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`

	Error *Problem `json:"error,omitempty"`
}

// Problem says why something was refused.
type Problem struct {
	Code        int            `json:"code"`   // as in HTTP
	Reason      chat.Code      `json:"reason"` // such as conflict
	Refusal     chat.Reason    `json:"refusal,omitempty"`
	Description string         `json:"description"`
	Details     map[string]any `json:"details,omitempty"`
}

// HistoryRequest asks for stored events of a session.
type HistoryRequest struct {
	After chat.Seq `json:"after,omitempty"`
	Limit int      `json:"limit,omitempty"` // 1 to 1000; 0 means 100
}

// HistoryReply carries them, in x1's words.
type HistoryReply struct {
	Session chat.SessionID    `json:"session_id"`
	Events  []json.RawMessage `json:"events"`
	More    bool              `json:"more"`
	Last    chat.Seq          `json:"last"` // the session's last event
	Error   *Problem          `json:"error,omitempty"`
}
