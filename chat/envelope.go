package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/parley-hq/parley/internal/json"
)

// Fact is an event as it is stored and sent to native readers: the bytes of the
// envelope. The bytes must not be changed.
type Fact struct {
	Seq  Seq
	JSON []byte
}

// Event reads the envelope.
func (f Fact) Event() (Event, error) { return ParseEvent(f.JSON) }

// Hash is 16 bytes of SHA-256 over an event's stored bytes. The zero Hash
// stands before the first event.
type Hash [16]byte

// Hash is what the next event carries as prev.
func (f Fact) Hash() Hash {
	sum := sha256.Sum256(f.JSON)
	return Hash(sum[:16])
}

func (h Hash) String() string {
	if h == (Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

func parseHash(s string) (h Hash, err error) {
	if s == "" {
		return h, nil
	}
	if len(s) != 32 {
		return h, Errorf(Invalid, "prev has 32 hexadecimal digits")
	}
	_, err = hex.Decode(h[:], []byte(s))
	return h, err
}

// envelope has the fields in the order in which they are stored. The payload is
// last, so that the other fields can be read without it.
type envelope struct {
	Session    SessionID       `json:"session_id"`
	Seq        Seq             `json:"sequence"`
	At         At              `json:"timestamp"`
	Type       string          `json:"type"`
	ID         EventID         `json:"id,omitempty"`
	Turn       TurnID          `json:"turn_id,omitempty"`
	Workstream string          `json:"workstream_id,omitempty"`
	Actor      *Actor          `json:"actor,omitempty"`
	Parent     EventID         `json:"parent_id,omitempty"`
	ClientID   string          `json:"client_id,omitempty"`
	Via        string          `json:"via,omitempty"`
	Prev       string          `json:"prev,omitempty"`
	Payload    json.RawMessage `json:"payload"`
}

// AppendJSON appends the envelope to b. It does not use the JSON encoder because every
// append calls it.
func (e *Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"session_id":"`...)
	b = append(b, e.Session...)
	b = append(b, `","sequence":`...)
	b = strconv.AppendUint(b, uint64(e.Seq), 10)
	b = append(b, `,"timestamp":"`...)
	b = e.At.appendStamp(b)
	b = append(b, `","type":"`...)
	b = append(b, e.Type...)
	b = append(b, '"')
	b = appendField(b, "id", string(e.ID))
	b = appendField(b, "turn_id", string(e.Turn))
	b = appendField(b, "workstream_id", e.Workstream)
	if e.Actor != (Actor{}) {
		b = append(b, `,"actor":{"kind":`...)
		b = json.AppendString(b, string(e.Actor.Kind))
		b = append(b, `,"id":`...)
		b = json.AppendString(b, e.Actor.ID)
		b = appendField(b, "name", e.Actor.Name)
		b = appendField(b, "email", e.Actor.Email)
		if e.Actor.Info != "" {
			b = append(b, `,"info":`...)
			b = append(b, e.Actor.Info...)
		}
		b = append(b, '}')
	}
	b = appendField(b, "parent_id", string(e.Parent))
	b = appendField(b, "client_id", e.ClientID)
	b = appendField(b, "via", e.Via)
	if e.Prev != (Hash{}) {
		b = append(b, `,"prev":"`...)
		b = hex.AppendEncode(b, e.Prev[:])
		b = append(b, '"')
	}
	b = append(b, `,"payload":`...)
	if len(e.Payload) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, e.Payload...)
	}
	return append(b, '}')
}

// MarshalJSON gives the envelope.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// UnmarshalJSON reads an envelope.
func (e *Event) UnmarshalJSON(b []byte) error {
	ev, err := ParseEvent(bytes.Clone(b))
	*e = ev
	return err
}

// Fact gives the event as it is stored.
func (e *Event) Fact() Fact { return Fact{Seq: e.Seq, JSON: e.AppendJSON(nil)} }

func appendField(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return json.AppendString(b, value)
}

// ParseEvent reads an envelope. The event keeps parts of b.
func ParseEvent(b []byte) (Event, error) {
	if e, ok := readStored(b); ok {
		return e, nil
	}
	return parseAny(b)
}

// parseAny reads an envelope of any writer.
func parseAny(b []byte) (Event, error) {
	var env envelope
	if err := json.Unmarshal(b, &env); err != nil {
		return Event{}, Errorf(Invalid, "not an event: %s", JSONProblem(err)).Because(err)
	}
	if env.Session == "" || env.Seq == 0 || env.Type == "" {
		return Event{}, Errorf(Invalid, "not an event: session_id, sequence and type are needed")
	}
	if err := env.Session.Validate(); err != nil {
		return Event{}, err
	}
	if err := CheckType(env.Type); err != nil {
		return Event{}, err
	}
	prev, err := parseHash(env.Prev)
	if err != nil {
		return Event{}, Errorf(Invalid, "not an event: prev is no hash").Because(err)
	}
	body, err := DecodeBody(env.Type, env.Payload)
	if err != nil {
		return Event{}, err
	}
	e := Event{
		Session: env.Session, Seq: env.Seq, At: env.At, Type: env.Type, ID: env.ID, Turn: env.Turn,
		Workstream: env.Workstream, Parent: env.Parent, ClientID: env.ClientID, Via: env.Via, Prev: prev,
		Payload: env.Payload, Body: body,
	}
	if env.Actor != nil {
		e.Actor = *env.Actor
	}
	return e, nil
}

// Label is what is known of a stored event without decoding it.
type Label struct {
	Type       string
	Workstream string
}

// Label reads type and workstream of an event that Parley stored, without
// decoding the rest. It relies on the order of fields that AppendJSON writes;
// what does not begin like that is read the slow way.
func (f Fact) Label() (Label, error) {
	label, _, err := f.Header()
	return label, err
}

// Header is Label with the position of the event.
func (f Fact) Header() (Label, At, error) {
	r := reader{rest: f.JSON}
	r.text(`{"session_id":"`)
	r.number(`,"sequence":`)
	at := r.stamp(`,"timestamp":"`)
	typ := r.text(`,"type":"`)
	r.maybe(`,"id":"`)
	r.maybe(`,"turn_id":"`)
	line := r.maybe(`,"workstream_id":"`)
	if r.bad {
		e, err := f.Event()
		return Label{e.Type, e.Workstream}, e.At, err
	}
	return Label{string(typ), string(line)}, at, nil
}
