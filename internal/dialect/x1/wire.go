package x1

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Headers of messages.
const (
	HeaderSequence = "Parley-Sequence" // on input from the server: the event's sequence
	HeaderKey      = "Nats-Msg-Id"     // the sender's idempotency key of an input
	HeaderStatus   = "Parley-Status"   // of a provider's reply: the HTTP status
)

// Message is the x1 envelope with the fields that Parley adds. A message that is not
// committed yet need not have a sequence.
type Message struct {
	Session   chat.SessionID  `json:"session_id"`
	Timestamp string          `json:"timestamp,omitempty"`
	Sequence  *int64          `json:"sequence,omitempty"`
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload"`

	ExpiresAt  int64        `json:"expires_at,omitempty"` // milliseconds since 1970; after that it is dropped
	ClientID   string       `json:"client_id,omitempty"`  // the sender's idempotency key
	Workstream string       `json:"workstream_id,omitempty"`
	Parent     chat.EventID `json:"parent_id,omitempty"`
	Turn       chat.TurnID  `json:"turn_id,omitempty"`
	Attempt    int          `json:"attempt,omitempty"`
	Epoch      int64        `json:"epoch,omitempty"` // of the sidecar that sends it; see AttachedType
}

// Reply is the answer to a message that has a reply subject.
type Reply struct {
	Session  chat.SessionID `json:"session_id,omitempty"`
	Sequence chat.Seq       `json:"sequence,omitempty"` // of the stored event
	ID       chat.EventID   `json:"id,omitempty"`
	Stopped  *bool          `json:"stopped,omitempty"` // of a stop: whether a turn was running
	Dropped  string         `json:"dropped,omitempty"` // why it was not stored, which is no error: expired, replay, echo, transient

	// For JetStream publishers.
	Stream string `json:"stream,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`

	Error *Problem `json:"error,omitempty"`
}

// Problem is an error.
type Problem struct {
	Code        int            `json:"code"`   // HTTP status
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

// HistoryReply has stored events in x1's form.
type HistoryReply struct {
	Session chat.SessionID    `json:"session_id"`
	Events  []json.RawMessage `json:"events"`
	More    bool              `json:"more"`
	Last    chat.Seq          `json:"last"` // the session's last event
	Error   *Problem          `json:"error,omitempty"`
}
