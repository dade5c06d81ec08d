package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"unicode/utf8"
)

// coded checks that a refusal has a code and a message.
func coded(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); !ok || e.Code == Internal || e.Msg == "" {
		t.Fatalf("refused with %#v", err)
	}
}

func FuzzParseDrafts(f *testing.F) {
	for _, s := range []string{
		`{"type":"user.message","payload":{"text":"a"}}`, `[{"type":"agent.text","payload":{"block":"b","text":"a"},"client_id":"c"}]`, `[]`, `{`,
		`{"type":"odd.thing","payload": [1 , 2]}`, ` [ { "type" : "user.message" , "payload" : {"text" : "a\"\\"} , "attempt":1},{"type":"a.b","payload":{,}} ] `, `{"type":"agent.input_request","payload":{"options":["a"],"timeout":1e3}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		quick, ok := readDrafts(b)
		slow, slowErr := parseDrafts(b)
		if ok && (slowErr != nil || !reflect.DeepEqual(quick, slow)) {
			t.Fatalf("quick %+v\nslow %+v, %v", quick, slow, slowErr)
		}
		drafts, err := ParseDrafts(b)
		if err != nil {
			coded(t, err)
			return
		}
		for _, d := range drafts {
			if !json.Valid(d.Payload) || !utf8.Valid(d.Payload) || bytes.ContainsAny(d.Payload, "\n\r") || d.Body == nil || len(d.Payload) > MaxEvent {
				t.Fatalf("accepted %q", d.Payload)
			}
			// An accepted draft can be stored and read.
			e := Event{Session: "s", Seq: 1, Type: d.Type, Payload: d.Payload, ClientID: d.ClientID, Workstream: d.Workstream, Parent: d.Parent}
			got, err := e.Fact().Event()
			if err != nil || string(got.Payload) != string(d.Payload) || got.ClientID != d.ClientID || !reflect.DeepEqual(got.Body, d.Body) {
				t.Fatalf("%q is stored as %q, %v", d.Payload, got.Payload, err)
			}
			new(Transcript).Apply(&got)
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	s := newScript(f)
	for _, v := range vectors {
		v.play(s)
	}
	for i, e := range s.events() {
		if i%5 == 0 {
			f.Add(e.AppendJSON(nil))
		}
	}
	f.Add([]byte(`{"payload":null,"type":"odd.thing","sequence":1,"session_id":"s","timestamp":"2026-01-02T03:04:05+01:00"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fast, ok := readStored(b)
		slow, slowErr := parseAny(b)
		if ok && (slowErr != nil || !reflect.DeepEqual(fast, slow)) {
			t.Fatalf("fast %+v\nslow %+v, %v", fast, slow, slowErr)
		}
		e, err := ParseEvent(b)
		if err != nil {
			coded(t, err)
			return
		}
		if e.At < -62_135_596_800_000_000 {
			return // before the year 1, which a stamp cannot have
		}
		again, err := ParseEvent(e.AppendJSON(nil))
		if err != nil {
			t.Fatalf("%s is written as %s: %v", b, e.AppendJSON(nil), err)
		}
		if len(e.Payload) == 0 {
			e.Payload = json.RawMessage("null")
		}
		if e.Body, again.Body = nil, nil; !reflect.DeepEqual(e, again) {
			t.Fatalf("%+v became %+v", e, again)
		}
		label, err := e.Fact().Label()
		if err != nil || label != (Label{e.Type, e.Workstream}) {
			t.Fatalf("label %+v, %v", label, err)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"0", "42", "42~b7.120", "42~b7.120~b9.4", "~", "1~b.", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		if err != nil {
			coded(t, err)
			return
		}
		again, err := ParseCursor(c.String())
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%q is %+v, then %+v, %v", s, c, again, err)
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	names := slices.Sorted(maps.Keys(Kinds()))
	s := newScript(f)
	for _, v := range vectors {
		v.play(s)
	}
	for _, e := range s.events() {
		if i, ok := slices.BinarySearch(names, e.Type); ok {
			f.Add(uint8(i), []byte(e.Payload))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, payload []byte) {
		name := names[int(kind)%len(names)]
		body, err := DecodeBody(name, payload)
		if err != nil {
			coded(t, err)
			return
		}
		if m, ok := body.(UserMessage); ok {
			if slow, err := plain[UserMessage](payload); err != nil || !reflect.DeepEqual(m, slow) {
				t.Fatalf("quick %+v\nslow %+v, %v", m, slow, err)
			}
		}
		if m, ok := body.(AgentText); ok {
			if slow, err := plain[AgentText](payload); err != nil || m != slow {
				t.Fatalf("quick %+v\nslow %+v, %v", m, slow, err)
			}
		}
		if body.Type() != name {
			t.Fatalf("%s is read as %s", name, body.Type())
		}
		// Writing and reading it again gives the same.
		p, err := encodePayload(body)
		if err != nil {
			t.Fatalf("%s %q cannot be written: %v", name, payload, err)
		}
		again, err := DecodeBody(name, p)
		if err != nil {
			t.Fatalf("%s %s: %v", name, p, err)
		}
		if q, err := encodePayload(again); err != nil || !bytes.Equal(p, q) {
			t.Fatalf("%s: %s became %s, %v", name, p, q, err)
		}
		if err := body.check(); err != nil {
			coded(t, err)
		}
		// Every event can be folded.
		tr := new(Transcript)
		for seq := range Seq(2) {
			tr.Apply(&Event{Session: "s", Seq: seq + 1, Type: name, Turn: "t", Body: body, Payload: payload})
		}
		if _, err := json.Marshal(tr.View()); err != nil {
			t.Fatal(err)
		}
	})
}
