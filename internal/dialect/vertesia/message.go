package vertesia

import (
	"bytes"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Type says what a message is.
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

// words are the names that messages of the older form may have instead of
// numbers. The shipped package has none for Restarting, and neither have we.
var words = map[string]Type{
	"system": System, "thought": Thought, "plan": Plan, "update": Update, "complete": Complete, "warning": Warning, "error": Error,
	"answer": Answer, "question": Question, "request_input": RequestInput, "idle": Idle, "terminated": Terminated,
	"streaming_chunk": StreamingChunk, "batch_progress": BatchProgress,
}

// MainLine is the workstream of messages that name none.
const MainLine = "main"

// CompactMessage is a message on the wire.
type CompactMessage struct {
	T  Type
	M  string          // the text
	W  string          // workstream; "" is the main one
	D  json.RawMessage // details: an object, null or nil
	F  int             // 1 on the last chunk of a stream
	TS float64         // milliseconds since the epoch; 0 is none
	I  string          // activity, on chunks

	// Word is the type of a parsed message that had a word where a number
	// belongs: it is passed on as it is.
	Word string

	raw []byte // what was parsed, unknown keys and all
}

// compactWire is the compact form's JSON.
type compactWire struct {
	T  json.RawMessage `json:"t"`
	M  string          `json:"m,omitempty"`
	W  string          `json:"w,omitempty"`
	D  json.RawMessage `json:"d,omitempty"`
	F  int             `json:"f,omitempty"`
	TS float64         `json:"ts,omitempty"`
	I  string          `json:"i,omitempty"`
}

// MarshalJSON writes the message; one that was parsed and not changed is written
// as it came.
func (c CompactMessage) MarshalJSON() ([]byte, error) {
	if c.raw != nil {
		if was, err := readCompact(c.raw); err == nil && was.same(&c) {
			return c.raw, nil
		}
	}
	return marshal(compactWire{c.T.json(c.Word), c.M, c.W, c.D, c.F, c.TS, c.I})
}

// UnmarshalJSON reads either form.
func (c *CompactMessage) UnmarshalJSON(b []byte) (err error) {
	*c, err = ParseMessage(b)
	return err
}

func (c *CompactMessage) same(o *CompactMessage) bool {
	return c.T == o.T && c.M == o.M && c.W == o.W && bytes.Equal(c.D, o.D) && c.F == o.F && c.TS == o.TS && c.I == o.I && c.Word == o.Word
}

func (t Type) json(word string) json.RawMessage {
	if word != "" {
		return chat.AppendString(nil, word)
	}
	return strconv.AppendInt(nil, int64(t), 10)
}

// AgentMessage is a message as applications see it, and the older form on the
// wire.
type AgentMessage struct {
	Timestamp     float64
	WorkflowRunID string
	Type          Type
	Message       string
	Details       json.RawMessage // nil is none
	WorkstreamID  string

	Word string // see CompactMessage
}

type agentWire struct {
	Timestamp     float64         `json:"timestamp"`
	WorkflowRunID string          `json:"workflow_run_id"`
	Type          json.RawMessage `json:"type"`
	Message       string          `json:"message"`
	Details       json.RawMessage `json:"details,omitempty"`
	WorkstreamID  string          `json:"workstream_id,omitempty"`
}

// MarshalJSON writes the older form.
func (m AgentMessage) MarshalJSON() ([]byte, error) {
	return marshal(agentWire{m.Timestamp, m.WorkflowRunID, m.Type.json(m.Word), m.Message, m.Details, m.WorkstreamID})
}

// UnmarshalJSON reads the older form; an unknown type is an update.
func (m *AgentMessage) UnmarshalJSON(b []byte) error {
	var w agentWire
	if err := json.Unmarshal(b, &w); err != nil {
		return malformed(err)
	}
	*m = AgentMessage{w.Timestamp, w.WorkflowRunID, NormalizeType(w.Type), w.Message, truthy(w.Details), w.WorkstreamID, ""}
	return nil
}

// NormalizeType reads the type of a message of the older form: a number or a
// word. What is neither, or unknown there, is an update; Restarting is, too.
func NormalizeType(v json.RawMessage) Type {
	var n float64
	if json.Unmarshal(v, &n) == nil {
		if t := Type(n); float64(t) == n && t >= System && t <= BatchProgress && string(v) != "null" {
			return t
		}
		return Update
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		if t, ok := words[s]; ok {
			return t
		}
	}
	return Update
}

// ParseMessage reads a message in either form: JSON, or a JSON string of it. The
// compact form is taken as it is; the older one is converted.
func ParseMessage(data []byte) (CompactMessage, error) {
	data = unquoted(data)
	var keys struct {
		T    json.RawMessage `json:"t"`
		Type json.RawMessage `json:"type"`
	}
	if len(data) == 0 || data[0] != '{' {
		return CompactMessage{}, chat.Errorf(chat.Invalid, "a message is a JSON object with t, or with type")
	}
	if err := wellFormed(data); err != nil {
		return CompactMessage{}, err
	}
	if err := json.Unmarshal(data, &keys); err != nil {
		return CompactMessage{}, malformed(err)
	}
	switch {
	case keys.T != nil:
		c, err := readCompact(data)
		c.raw = bytes.Clone(data)
		return c, err
	case keys.Type != nil:
		var m AgentMessage
		if err := m.UnmarshalJSON(data); err != nil {
			return CompactMessage{}, err
		}
		return ToCompactMessage(m), nil
	}
	return CompactMessage{}, chat.Errorf(chat.Invalid, "a message has t, or in the older form type")
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

func readCompact(data []byte) (CompactMessage, error) {
	var w compactWire
	if err := json.Unmarshal(data, &w); err != nil {
		return CompactMessage{}, malformed(err)
	}
	c := CompactMessage{M: w.M, W: w.W, D: w.D, F: w.F, TS: w.TS, I: w.I}
	var n float64
	if json.Unmarshal(w.T, &n) == nil {
		if c.T = Type(n); float64(c.T) != n {
			return c, chat.Errorf(chat.Invalid, "t is a whole number")
		}
	} else if json.Unmarshal(w.T, &c.Word) == nil {
		c.T = NormalizeType(w.T)
	} else {
		return c, chat.Errorf(chat.Invalid, "t is a number")
	}
	return c, nil
}

// ToCompactMessage converts the form that applications see to that of the wire.
// Of a chunk's details only the end survives, as in the shipped package.
func ToCompactMessage(m AgentMessage) CompactMessage {
	c := CompactMessage{T: m.Type, M: m.Message, TS: m.Timestamp}
	if c.T < System || c.T > BatchProgress {
		c.T = Update
	}
	if m.WorkstreamID != MainLine {
		c.W = m.WorkstreamID
	}
	details := truthy(m.Details)
	if c.T != StreamingChunk {
		c.D = details
	} else if details != nil {
		var d struct {
			Final json.RawMessage `json:"is_final"`
		}
		if json.Unmarshal(details, &d) == nil && truthy(d.Final) != nil {
			c.F = 1
		}
	}
	return c
}

// ToAgentMessage converts a message of the wire to what applications see. The
// run is not in the compact form; a message without a time gets the present one.
func ToAgentMessage(c CompactMessage, runID string) AgentMessage {
	m := AgentMessage{Type: c.T, Word: c.Word, Timestamp: c.TS, WorkflowRunID: runID, Message: c.M, WorkstreamID: c.W}
	if m.Timestamp == 0 {
		m.Timestamp = float64(time.Now().UnixMilli())
	}
	if m.WorkstreamID == "" {
		m.WorkstreamID = MainLine
	}
	if len(c.D) > 0 && string(c.D) != "null" {
		m.Details = c.D
	}
	if c.T == StreamingChunk && c.Word == "" {
		m.Details = chunkDetails(&c)
	}
	return m
}

func chunkDetails(c *CompactMessage) json.RawMessage {
	d := map[string]json.RawMessage{}
	_ = json.Unmarshal(c.D, &d) // what is no object has no details
	if d == nil {
		d = map[string]json.RawMessage{}
	}
	var s string
	if json.Unmarshal(d["streaming_id"], &s) != nil || d["streaming_id"] == nil {
		s = c.W
		if s == "" {
			s = MainLine
		}
		d["streaming_id"] = chat.AppendString(nil, s)
	}
	d["is_final"] = strconv.AppendBool(nil, c.F == 1)
	if c.I != "" {
		d["activity_id"] = chat.AppendString(nil, c.I)
	}
	b, err := marshal(d)
	if err != nil {
		panic("vertesia: details that were read cannot be written: " + err.Error())
	}
	return b
}

// CompactOptions is what CreateCompactMessage takes beside the type.
type CompactOptions struct {
	Message      string
	WorkstreamID string
	Details      json.RawMessage
	IsFinal      bool
	Timestamp    float64
}

// CreateCompactMessage makes a message for the wire.
func CreateCompactMessage(t Type, o CompactOptions) CompactMessage {
	c := CompactMessage{T: t, M: o.Message, D: truthy(o.Details), TS: o.Timestamp}
	if o.WorkstreamID != MainLine {
		c.W = o.WorkstreamID
	}
	if o.IsFinal {
		c.F = 1
	}
	return c
}

// truthy returns v, or nil for what JavaScript takes for false.
func truthy(v json.RawMessage) json.RawMessage {
	switch string(v) {
	case "", "null", "false", "0", `""`:
		return nil
	}
	return v
}

// marshal writes v without escaping < > &, which are plain text in JSON.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ts is a position as a timestamp: milliseconds with up to three decimals.
func appendTS(dst []byte, at chat.At) []byte {
	dst = strconv.AppendInt(dst, int64(at)/1000, 10)
	rest := int64(at) % 1000
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.', byte('0'+rest/100))
	if rest %= 100; rest != 0 {
		dst = append(dst, byte('0'+rest/10))
		if rest %= 10; rest != 0 {
			dst = append(dst, byte('0'+rest))
		}
	}
	return dst
}
