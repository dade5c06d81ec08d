package chat

import (
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Event is an event of a session, decoded. Its JSON form is the envelope that the
// log stores (see Fact).
type Event struct {
	Session    SessionID
	Seq        Seq // given by the log; 1 is the first
	At         At  // position and time
	Type       string
	ID         EventID
	Turn       TurnID // the turn it belongs to, if any
	Workstream string // "" is the main line
	Actor      Actor
	Parent     EventID
	ClientID   string // the sender's idempotency key
	Via        string // the dialect it came by; "" is the native one, or the server itself
	Prev       Hash   // over the stored bytes of the event before it
	Payload    json.RawMessage
	Body       Body // Payload, decoded
}

// Body is what an event says: one of the kinds in the kind_*.go files, or
// Unknown. There are no others.
type Body interface {
	// Type is the type on the wire, such as "agent.text".
	Type() string
	// check reports why the body cannot become a fact.
	check() error
}

// Unknown is an event of a type that this version does not know. It is stored and
// sent without a change.
type Unknown struct {
	Name    string
	Payload json.RawMessage
}

// Type returns the foreign type's name.
func (u Unknown) Type() string { return u.Name }

// MarshalJSON returns the payload as it came.
func (u Unknown) MarshalJSON() ([]byte, error) {
	if len(u.Payload) == 0 {
		return []byte("null"), nil
	}
	return u.Payload, nil
}

func (u Unknown) check() error {
	if len(u.Payload) > 0 && !json.Valid(u.Payload) {
		return Errorf(Invalid, "the payload of %s is not valid JSON", text.Clip(u.Name, 64))
	}
	return CheckType(u.Name)
}

// kinds lists every type this version knows.
var kinds = map[string]func() Body{}

func register[B Body](decode func(json.RawMessage) (B, error)) {
	var zero B
	decoders[zero.Type()] = func(p json.RawMessage) (Body, error) {
		b, err := decode(p)
		return b, err
	}
	kinds[zero.Type()] = func() Body { var b B; return b }
	names[zero.Type()] = zero.Type()
}

// names has the name of every type, so that reading one needs no memory.
var names = map[string]string{}

var decoders = map[string]func(json.RawMessage) (Body, error){}

// Kinds returns a zero value of every known kind by its type name. It is what
// documents and generated code are made from.
func Kinds() map[string]Body {
	all := make(map[string]Body, len(kinds))
	for name, zero := range kinds {
		all[name] = zero()
	}
	return all
}

// DecodeBody reads the payload of a type. Unknown types give Unknown; unknown
// fields are ignored; both names that x1 has for a field are read, such as tool and tool_name.
func DecodeBody(typ string, payload json.RawMessage) (Body, error) {
	decode, ok := decoders[typ]
	if !ok {
		return Unknown{Name: typ, Payload: payload}, nil
	}
	body, err := decode(payload)
	if err != nil {
		return nil, Errorf(Invalid, "payload of %s: %s", typ, JSONProblem(err)).Because(err)
	}
	return body, nil
}

// CheckType refuses what cannot be the name of a kind of event.
func CheckType(s string) error {
	if s == "" {
		return Errorf(Invalid, "an event needs a type, such as user.message")
	}
	if len(s) > 64 {
		return Errorf(Invalid, "an event type has at most 64 characters")
	}
	dot, start := false, true
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', !start && (c >= '0' && c <= '9' || c == '_'):
			start = false
		case c == '.' && !start:
			dot, start = true, true
		default:
			return Errorf(Invalid, "%q is not an event type: use dotted lower-case words such as user.message", s)
		}
	}
	if !dot || start {
		return Errorf(Invalid, "%q is not an event type: use dotted lower-case words such as user.message", s)
	}
	return nil
}
