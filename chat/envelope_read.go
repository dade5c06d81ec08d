package chat

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/json"
)

// readStored reads an envelope that AppendJSON wrote, field by field in its
// order, which is several times faster than reading any JSON. ok is false when
// something is not as expected; then the envelope must be read the slow way.
func readStored(b []byte) (e Event, ok bool) {
	r := reader{rest: b}
	e.Session = SessionID(r.plain(`{"session_id":"`))
	e.Seq = Seq(r.number(`,"sequence":`))
	e.At = r.stamp(`,"timestamp":"`)
	e.Type = r.plain(`,"type":"`)
	e.ID = EventID(r.optional(`,"id":"`))
	e.Turn = TurnID(r.optional(`,"turn_id":"`))
	e.Workstream = r.optional(`,"workstream_id":"`)
	if r.has(`,"actor":{`) {
		e.Actor.Kind = ActorKind(r.plain(`"kind":"`))
		e.Actor.ID = r.plain(`,"id":"`)
		e.Actor.Name = r.optional(`,"name":"`)
		e.Actor.Email = r.optional(`,"email":"`)
		r.need(`}`)
	}
	e.Parent = EventID(r.optional(`,"parent_id":"`))
	e.ClientID = r.optional(`,"client_id":"`)
	e.Via = r.optional(`,"via":"`)
	e.Prev = r.hash(`,"prev":"`)
	r.need(`,"payload":`)
	last := len(r.rest) - 1
	if r.bad || last < 1 || r.rest[last] != '}' || e.Seq == 0 {
		return Event{}, false
	}
	e.Payload = json.RawMessage(r.rest[:last])
	body, err := DecodeBody(e.Type, e.Payload)
	if err != nil {
		return Event{}, false
	}
	// Decoding a known kind has shown that the payload is one value and the
	// type a word; of the others nothing is known yet.
	if _, unknown := body.(Unknown); unknown && (!json.Valid(e.Payload) || CheckType(e.Type) != nil) {
		return Event{}, false
	}
	if e.Session.Validate() != nil {
		return Event{}, false
	}
	e.Body = body
	return e, true
}

// Outline reads what is needed to store and index an event of a session: Session, Seq, At, Type, Workstream, kind and ID of Actor,
// ClientID and Prev. It takes a fraction of the time of Event. Events of other sessions, of types for which whole returns
// true, and those that Parley would write otherwise are read completely.
func (f Fact) Outline(session SessionID, whole func(typ string) bool) (e Event, err error) {
	r := reader{rest: f.JSON}
	same := string(r.text(`{"session_id":"`)) == string(session)
	e.Session = session
	e.Seq = Seq(r.number(`,"sequence":`))
	e.At = r.stamp(`,"timestamp":"`)
	typ, known := names[string(r.text(`,"type":"`))]
	e.Type = typ
	r.maybe(`,"id":"`)
	r.maybe(`,"turn_id":"`)
	e.Workstream = r.optional(`,"workstream_id":"`)
	if r.has(`,"actor":{`) {
		e.Actor.Kind = kindOf(r.text(`"kind":"`))
		e.Actor.ID = r.plain(`,"id":"`)
		r.maybe(`,"name":"`)
		r.maybe(`,"email":"`)
		r.need(`}`)
	}
	r.maybe(`,"parent_id":"`)
	e.ClientID = r.optional(`,"client_id":"`)
	r.maybe(`,"via":"`)
	e.Prev = r.hash(`,"prev":"`)
	r.need(`,"payload":`)
	if last := len(r.rest) - 1; r.bad || !same || !known || last < 1 || r.rest[last] != '}' || e.Seq == 0 || whole(typ) {
		return f.Event()
	}
	return e, nil
}

// kindOf returns the kind of an actor without using memory for those that there are.
func kindOf(b []byte) ActorKind {
	for _, k := range [...]ActorKind{User, Agent, Server} {
		if string(b) == string(k) {
			return k
		}
	}
	return ActorKind(b)
}

// reader parses an envelope. When something is not as AppendJSON writes it, the reader
// is bad and returns nothing more.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) has(key string) bool {
	if r.bad || !bytes.HasPrefix(r.rest, []byte(key)) {
		return false
	}
	r.rest = r.rest[len(key):]
	return true
}

func (r *reader) need(key string) { r.bad = !r.has(key) }

// text reads a string behind a key. One that has escapes is not as expected.
func (r *reader) text(key string) []byte {
	if r.need(key); r.bad {
		return nil
	}
	ascii := true
	for i, c := range r.rest {
		switch {
		case c == '"':
			s := r.rest[:i]
			r.rest = r.rest[i+1:]
			r.bad = !ascii && !utf8.Valid(s)
			return s
		case c < 0x20 || c == '\\':
			r.bad = true
			return nil
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.bad = true
	return nil
}

// maybe reads a string that may be left out.
func (r *reader) maybe(key string) []byte {
	if r.bad || !bytes.HasPrefix(r.rest, []byte(key)) {
		return nil
	}
	return r.text(key)
}

func (r *reader) plain(key string) string { return string(r.text(key)) }

func (r *reader) optional(key string) string { return string(r.maybe(key)) }

func (r *reader) number(key string) uint64 {
	if r.need(key); r.bad {
		return 0
	}
	i := 0
	for i < len(r.rest) && r.rest[i] >= '0' && r.rest[i] <= '9' {
		i++
	}
	n, err := strconv.ParseUint(string(r.rest[:i]), 10, 64)
	r.bad = err != nil || r.rest[0] == '0'
	r.rest = r.rest[i:]
	return n
}

func (r *reader) stamp(key string) At {
	s := r.plain(key)
	if r.bad {
		return 0
	}
	t, err := time.Parse(stampLayout, s)
	r.bad = err != nil || len(s) != len(stampLayout)
	return AtOf(t)
}

func (r *reader) hash(key string) (h Hash) {
	s := r.maybe(key)
	if s == nil {
		return h
	}
	if len(s) != hex.EncodedLen(len(h)) {
		r.bad = true
		return h
	}
	_, err := hex.Decode(h[:], s)
	r.bad = r.bad || err != nil
	return h
}
