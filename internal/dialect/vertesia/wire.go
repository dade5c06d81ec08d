package vertesia

import (
	"bytes"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// Type is the type of a message.
type Type int

// The types of a message.
const (
	System         Type = 0
	Thought        Type = 1
	Plan           Type = 2
	Update         Type = 3
	Complete       Type = 4
	Warning        Type = 5
	Error          Type = 6
	Answer         Type = 7
	Question       Type = 8 // what a person says
	RequestInput   Type = 9
	Idle           Type = 10
	Terminated     Type = 11
	StreamingChunk Type = 12
	BatchProgress  Type = 13
	Restarting     Type = 14
)

// typeNames are the names that may stand for a type's number. The shipped package
// has none for Restarting.
var typeNames = map[string]Type{
	"system": System, "thought": Thought, "plan": Plan, "update": Update, "complete": Complete, "warning": Warning, "error": Error,
	"answer": Answer, "question": Question, "request_input": RequestInput, "idle": Idle, "terminated": Terminated,
	"streaming_chunk": StreamingChunk, "batch_progress": BatchProgress,
}

// UnmarshalJSON reads a whole number or a name; an unknown name is an update.
func (t *Type) UnmarshalJSON(b []byte) error {
	var n float64
	var name string
	switch {
	case json.Unmarshal(b, &n) == nil:
		if *t = Type(n); float64(*t) != n {
			return chat.Errorf(chat.Invalid, "t is a whole number")
		}
	case json.Unmarshal(b, &name) == nil:
		*t = normalizeType(b)
	default:
		return chat.Errorf(chat.Invalid, "t is a number")
	}
	return nil
}

// mainLine is the workstream of messages that name none.
const mainLine = "main"

// compactMessage is a message in the form that is sent.
type compactMessage struct {
	T  Type            `json:"t"`
	M  string          `json:"m,omitempty"`  // the text
	W  string          `json:"w,omitempty"`  // workstream; "" is the main line
	D  json.RawMessage `json:"d,omitempty"`  // details: an object, null or nil
	F  int             `json:"f,omitempty"`  // 1 on the last chunk of a stream
	TS float64         `json:"ts,omitempty"` // milliseconds since the epoch; 0 is none
	I  string          `json:"i,omitempty"`  // activity, on chunks
}

// olderMessage is a message in the form that applications see, which clients may
// also post.
type olderMessage struct {
	Timestamp    float64         `json:"timestamp"`
	Type         json.RawMessage `json:"type"`
	Message      string          `json:"message"`
	Details      json.RawMessage `json:"details"`
	WorkstreamID string          `json:"workstream_id"`
}

// normalizeType reads the type of a message of the older form, a number or a
// name. Anything else is an update, Restarting too.
func normalizeType(v json.RawMessage) Type {
	var n float64
	if json.Unmarshal(v, &n) == nil {
		if t := Type(n); float64(t) == n && t >= System && t <= BatchProgress && string(v) != "null" {
			return t
		}
		return Update
	}
	var name string
	if json.Unmarshal(v, &name) == nil {
		if t, ok := typeNames[name]; ok {
			return t
		}
	}
	return Update
}

// parseMessage reads a message in either form: JSON, or a JSON string of it. older
// is nil for the compact form.
func parseMessage(data []byte) (m compactMessage, older *olderMessage, err error) {
	var in struct {
		T json.RawMessage `json:"t"`
		olderMessage
	}
	data = unquoted(data)
	if err := decode(data, &in); err != nil {
		return m, nil, err
	}
	if in.T != nil {
		err = edge.Decode(data, &m)
		return m, nil, err
	}
	return in.compact(), &in.olderMessage, nil
}

// unquoted takes JSON out of a JSON string that holds it.
func unquoted(data []byte) []byte {
	data = bytes.TrimSpace(data)
	var inner string
	if len(data) > 0 && data[0] == '"' && json.Unmarshal(data, &inner) == nil {
		return bytes.TrimSpace([]byte(inner))
	}
	return data
}

// compact converts a message as the shipped package does: of a chunk's details
// only is_final is kept.
func (m *olderMessage) compact() compactMessage {
	c := compactMessage{T: normalizeType(m.Type), M: m.Message, TS: m.Timestamp}
	if m.WorkstreamID != mainLine {
		c.W = m.WorkstreamID
	}
	details := truthy(m.Details)
	if c.T != StreamingChunk {
		c.D = details
		return c
	}
	var d struct {
		Final json.RawMessage `json:"is_final"`
	}
	if details != nil && json.Unmarshal(details, &d) == nil && truthy(d.Final) != nil {
		c.F = 1
	}
	return c
}

// decode checks JSON of a client and decodes it.
func decode(b []byte, v any) error {
	if err := edge.CheckJSON(b); err != nil {
		return err
	}
	return edge.Decode(b, v)
}

// truthy returns v, or nil when JavaScript takes it for false.
func truthy(v json.RawMessage) json.RawMessage {
	switch string(v) {
	case "", "null", "false", "0", `""`:
		return nil
	}
	return v
}

// appendTS appends a position as a timestamp: milliseconds with up to three decimals.
func appendTS(dst []byte, at chat.At) []byte {
	dst = strconv.AppendInt(dst, int64(at)/1000, 10)
	rest := int64(at) % 1000
	if rest == 0 {
		return dst
	}
	decimals := []byte{byte('0' + rest/100), byte('0' + rest/10%10), byte('0' + rest%10)}
	return append(append(dst, '.'), bytes.TrimRight(decimals, "0")...)
}

// millis is a position as a timestamp in details.
func millis(at chat.At) float64 { return float64(at) / 1000 }
