package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/json"
)

// Draft is an event to append. Sending the same ClientID again as the same actor
// returns the first event, so a sender may repeat after a lost answer.
type Draft struct {
	Type       string
	Payload    json.RawMessage // what was sent; nil means Body, encoded
	Body       Body
	ClientID   string
	Workstream string
	Parent     EventID
	Turn       TurnID // the turn that the draft belongs to; "" means none
	Attempt    int    // the attempt of that turn; 0 means not checked
	Via        string // the dialect that it came through; set by dialects, never by clients
	Interrupt  bool   // a user message that stops the running turn, whatever the session's policy
	Expect     *Expected
	AfterSeq   Seq       // the session's last event when the sender decided; 0 means not checked
	File       *FileName // the change of a file that the event reports; set by the server, and used in a cluster only

	sent uint64 // the digest of what was sent, 0 until it is needed
}

// Expected is the state of the line on which the sender of a user message decided. If
// the line has changed since, the draft is refused with a conflict, and the sender
// decides again.
type Expected struct {
	Turn  TurnID // the running turn, "" for none
	Queue []Seq  // the messages that wait, without those withdrawn in the same append
}

// Holds reports whether the line still is as expected.
func (x *Expected) Holds(l *Line) bool {
	running := TurnID("")
	if l.Turn != nil {
		running = l.Turn.ID
	}
	return running == x.Turn && slices.Equal(l.Queue, x.Queue)
}

// Limits of a draft.
const (
	MaxEvent    = 768 << 10 // bytes of an event, so that it fits a NATS payload of 1 MiB
	MaxClientID = 256
	MaxDrafts   = 1000 // in one append
)

// NewDraft wraps what the server or an agent says.
func NewDraft(body Body) Draft { return Draft{Type: body.Type(), Body: body} }

// As returns d with an idempotency key.
func (d Draft) As(clientID string) Draft { d.ClientID = clientID; return d }

// draftWire is a draft on the native wire.
type draftWire struct {
	Type       string          `json:"type"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	ClientID   string          `json:"client_id,omitempty"`
	Workstream string          `json:"workstream_id,omitempty"`
	Parent     EventID         `json:"parent_id,omitempty"`
	Turn       TurnID          `json:"turn_id,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	AfterSeq   Seq             `json:"after_sequence,omitempty"`
}

// MarshalJSON gives the form that ParseDrafts reads. The draft is normalized.
func (d Draft) MarshalJSON() ([]byte, error) {
	return json.Marshal(draftWire{d.Type, d.Payload, d.ClientID, d.Workstream, d.Parent, d.Turn, d.Attempt, d.AfterSeq})
}

// ParseDrafts reads one draft or an array of them. The drafts keep parts of b.
func ParseDrafts(b []byte) ([]Draft, error) {
	if drafts, ok := readDrafts(b); ok {
		return drafts, nil
	}
	return parseDrafts(b)
}

// parseDrafts reads drafts however they are written, and says what is wrong with
// those that cannot be read.
func parseDrafts(b []byte) ([]Draft, error) {
	b = bytes.TrimLeft(b, " \t\r\n")
	var wires []draftWire
	if len(b) > 0 && b[0] == '[' {
		if err := json.Unmarshal(b, &wires); err != nil {
			return nil, Errorf(Invalid, "not an array of drafts: %s", JSONProblem(err)).Because(err)
		}
	} else {
		wires = make([]draftWire, 1)
		if err := json.Unmarshal(b, &wires[0]); err != nil {
			return nil, Errorf(Invalid, "not a draft: %s", JSONProblem(err)).Because(err)
		}
	}
	if len(wires) == 0 {
		return nil, Errorf(Invalid, "there is nothing to append: send a draft {type, payload} or an array of them")
	}
	if len(wires) > MaxDrafts {
		return nil, Errorf(TooLarge, "one append takes at most %d drafts", MaxDrafts)
	}
	drafts := make([]Draft, len(wires))
	for i, w := range wires {
		d := Draft{
			Type: w.Type, Payload: w.Payload, ClientID: w.ClientID, Workstream: w.Workstream,
			Parent: w.Parent, Turn: w.Turn, Attempt: w.Attempt, AfterSeq: w.AfterSeq,
		}
		if err := d.Normalize(); err != nil {
			if len(wires) > 1 {
				e := *Public(err)
				e.Msg = "draft " + strconv.Itoa(i) + ": " + e.Msg
				err = e.With("index", i)
			}
			return nil, err
		}
		drafts[i] = d
	}
	return drafts, nil
}

// Normalize checks the draft and fills in Body from Payload or Payload from Body.
// After it, both are there.
func (d *Draft) Normalize() error {
	if d.Body == nil {
		if err := CheckType(d.Type); err != nil {
			return err
		}
		p, err := compact(d.Payload)
		if err != nil {
			return err
		}
		d.Payload = p
		if d.Body, err = DecodeBody(d.Type, p); err != nil {
			return err
		}
	} else {
		d.Type = d.Body.Type()
		if d.Payload == nil {
			p, err := encodePayload(d.Body)
			if err != nil {
				return Errorf(Invalid, "payload of %s cannot be written as JSON", d.Type).Because(err)
			}
			d.Payload = p
		}
	}
	if len(d.Payload) > MaxEvent {
		return Errorf(TooLarge, "an event has at most %d KiB; put large things into artifacts", MaxEvent>>10)
	}
	if err := checkDepth(d.Payload); err != nil {
		return err
	}
	if len(d.ClientID) > MaxClientID || !utf8.ValidString(d.ClientID) {
		return Errorf(Invalid, "a client_id has at most %d bytes of UTF-8", MaxClientID)
	}
	if d.Workstream != "" && d.Workstream != "main" {
		if err := CheckWorkstream(d.Workstream); err != nil {
			return err
		}
	} else {
		d.Workstream = ""
	}
	if d.Parent != "" {
		if _, ok := ParseID(EventPrefix, string(d.Parent)); !ok {
			return Errorf(Invalid, "parent_id is not an event id")
		}
	}
	return d.Body.check()
}

// Digest is equal for two uses of one client id that mean the same, however their payloads are written. It is computed
// once: what the server changes in the draft later does not change it.
func (d *Draft) Digest() uint64 {
	if d.sent != 0 {
		return d.sent
	}
	h := sha256.New()
	h.Write([]byte(d.Type))
	h.Write([]byte{0})
	h.Write([]byte(d.Workstream))
	h.Write([]byte{0})
	h.Write(json.AppendCanonical(nil, d.Payload))
	var sum [32]byte
	d.sent = binary.BigEndian.Uint64(h.Sum(sum[:0]))
	return d.sent
}

// compact removes white space and makes sure that what is stored is UTF-8.
func compact(p json.RawMessage) (json.RawMessage, error) {
	if len(p) == 0 {
		return json.RawMessage("{}"), nil
	}
	if !utf8.Valid(p) {
		return nil, Errorf(Invalid, "the payload is not valid UTF-8")
	}
	if isCompact(p) {
		return p, nil
	}
	var b bytes.Buffer
	b.Grow(len(p))
	if err := json.Compact(&b, p); err != nil {
		return nil, Errorf(Invalid, "the payload is not valid JSON").Because(err)
	}
	return b.Bytes(), nil
}

// isCompact reports whether there is no white space outside of texts. Most
// senders write it so, and then nothing has to be copied. It says nothing about
// whether p is valid.
func isCompact(p []byte) bool {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case ' ', '\n', '\r', '\t':
			return false
		case '"':
			n := json.TextEnd(p[i:])
			if n == 0 {
				return true
			}
			i += n - 1
		}
	}
	return true
}

// encodePayload writes a body as JSON.
func encodePayload(body Body) (json.RawMessage, error) {
	switch b := body.(type) {
	case Unknown:
		return compact(b.Payload)
	case UserMessage:
		if b.UserID == "" && b.Content == nil && b.Context == nil && json.IsPlain(b.Text) {
			out := append(make([]byte, 0, len(b.Text)+11), `{"text":"`...)
			return append(append(out, b.Text...), `"}`...), nil
		}
	}
	return json.Marshal(body)
}

// Rewritten returns d with another payload. Its digest stays.
func (d Draft) Rewritten(payload json.RawMessage) (Draft, error) {
	d.Digest()
	d.Payload, d.Body = payload, nil
	return d, d.Normalize()
}

// WithBody returns d with another body. Its digest stays if d has a client id.
func (d Draft) WithBody(body Body) (Draft, error) {
	if d.ClientID != "" {
		d.Digest()
	}
	d.Body, d.Payload = body, nil
	return d, d.Normalize()
}
