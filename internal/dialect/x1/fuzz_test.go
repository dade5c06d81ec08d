package x1

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// decode refuses a message, or returns one of the session of its subject.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"session_id":"s1","timestamp":"2026-01-01T00:00:00Z","sequence":0,"type":"user.message","payload":{"text":"hi"}}`,
		`{"session_id":"s2","type":"user.message"}`, `{"type":"agent.text","payload":null,"sequence":-1}`, `{"type":"x","sequence":1.5}`,
		`{"type":"user.input_response","payload":{"answer":"b","request_id":"r"},"expires_at":1}`, `[]`, `"`, ``, `{"type":"agent.text","payload":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode("s1", b)
		if err != nil {
			return
		}
		if m.Session != "s1" || m.Type == "" {
			t.Fatalf("%+v", m)
		}
		r, d := newReplayFilter(), DigestOf(m.Type, m.Payload)
		if r.copied(b) || !r.copied(b) {
			t.Fatal("the same bytes twice are one message")
		}
		r.count(&m, time.Time{})
		if r.repeated(&m, d) {
			t.Fatal("the first message is no repetition")
		}
		r.add(m.Type, d)
		m.userFields()
		draft := m.draft()
		if draft.Normalize() == nil && !json.Valid(draft.Payload) {
			t.Fatalf("%s", draft.Payload)
		}
	})
}

// A stored event is published with the same sequence, type and fields.
func FuzzEncode(f *testing.F) {
	f.Add("agent.tool_call", []byte(`{"tool_name":"x","input":{}}`))
	f.Add("agent.status", []byte(`{}`))
	f.Add("user.input_response", []byte(`{"request_id":"r","values":["a"]}`))
	f.Add("session.started", []byte(`{"agent":"demo"}`))
	f.Add("agent.usage", []byte(`{"input_tokens":5,"cache_read_input_tokens":2}`))
	f.Add("agent.strange", []byte(`[1]`))
	f.Fuzz(func(t *testing.T, typ string, payload []byte) {
		d := chat.Draft{Type: typ, Payload: payload}
		if d.Normalize() != nil {
			return
		}
		e := chat.Event{Session: "s1", Seq: 7, At: 1, Type: d.Type, Payload: d.Payload, Body: d.Body}
		fact := e.Fact()
		b, err := encode(fact)
		if err != nil {
			return // what cannot be read as stored
		}
		var was, is struct {
			Session  string          `json:"session_id"`
			Sequence int             `json:"sequence"`
			Payload  json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(b, &is); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if err := json.Unmarshal(fact.JSON, &was); err != nil {
			t.Fatal(err)
		}
		if is.Session != "s1" || is.Sequence != 7 {
			t.Fatalf("%s", b)
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(was.Payload, &before) == nil {
			if err := json.Unmarshal(is.Payload, &after); err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			for k, v := range before {
				if string(after[k]) != string(v) && (typ != "agent.usage" || k != "input_tokens") {
					t.Fatalf("%s became %s", was.Payload, is.Payload)
				}
			}
		}
	})
}

func TestSubjects(t *testing.T) {
	for _, id := range []chat.SessionID{"s1", "a.b.c", "A_-9", "..a"} {
		got, k, ok := ParseSubject(Subject(id, Input))
		if !ok || got != id || k != Input {
			t.Errorf("%s: %s %s %v", id, got, k, ok)
		}
	}
	for _, s := range []string{"x1.session.a.b.events", "x1.session.a", "x1.session..events", "x1.session.*.events", "x2.session.a.events", "x1.session.a b.events"} {
		if id, _, ok := ParseSubject(s); ok {
			t.Errorf("%s was read as %s", s, id)
		}
	}
}
