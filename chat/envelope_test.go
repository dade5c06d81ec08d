package chat

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	exactjson "github.com/parley-hq/parley/internal/json"
)

// anyText draws texts with characters that JSON must escape.
var anyText = rapid.OneOf(
	rapid.String(),
	rapid.SampledFrom([]string{
		`,"type":"`, `","type":"user.message`, `,"payload":`, `,"workstream_id":"x"`, `"`, `\`, "\\\"", "\u2028\u2029", "\x00\x1f\x7f",
		"é👩‍👩‍👧", "\ufffd", "<script>&amp;", "\r\n\t\b\f", `{"payload":{}}`, `\u0022`, "",
	}),
)

func drawEvent(rt *rapid.T) Event {
	text := func(name string) string { return anyText.Draw(rt, name) }
	payload, err := json.Marshal(map[string]any{"text": text("text"), text("key"): []any{text("value"), nil, 1.5}})
	if err != nil {
		rt.Fatal(err)
	}
	seq := Seq(rapid.Uint64Range(1, uint64(MaxSeq)).Draw(rt, "seq"))
	e := Event{
		Session: "s-1.A_b", Seq: seq, At: At(rapid.Int64Range(0, 1<<53).Draw(rt, "at")),
		Type: rapid.SampledFrom([]string{"agent.text", "odd.thing", "agent.status"}).Draw(rt, "type"), Payload: payload,
		ID: EventID(text("id")), Turn: TurnID(text("turn")), Workstream: text("line"), Parent: EventID(text("parent")), ClientID: text("client"),
	}
	if rapid.Bool().Draw(rt, "actor") {
		e.Actor = Actor{Kind: ActorKind(text("kind")), ID: text("actor id"), Name: text("name"), Email: text("email")}
		if rapid.Bool().Draw(rt, "info") {
			e.Actor.Info = Info(jsonOf(rt, map[string]any{text("info key"): []any{text("info"), 1}}))
		}
	}
	if rapid.Bool().Draw(rt, "prev") {
		e.Prev = Hash{1, 2, byte(seq), 255}
	}
	return e
}

func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEvent(rt)
		b := e.AppendJSON(nil)
		got, err := ParseEvent(b)
		if err != nil {
			rt.Fatalf("%v\n%s", err, b)
		}
		if got.Body == nil || got.Body.Type() != e.Type {
			rt.Fatalf("body %T", got.Body)
		}
		got.Body = nil
		if !reflect.DeepEqual(got, e) {
			rt.Fatalf("\nwrote %+v\nread  %+v", e, got)
		}
		// AppendJSON writes the same as encoding/json.
		env := envelope{
			Session: e.Session, Seq: e.Seq, At: e.At, Type: e.Type, ID: e.ID, Turn: e.Turn, Workstream: e.Workstream,
			Parent: e.Parent, ClientID: e.ClientID, Prev: e.Prev.String(), Payload: e.Payload,
		}
		if e.Actor != (Actor{}) {
			env.Actor = &e.Actor
		}
		var ours, theirs any
		if err := json.Unmarshal(b, &ours); err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal([]byte(jsonOf(rt, env)), &theirs); err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(ours, theirs) {
			rt.Fatalf("\nours   %v\ntheirs %v", ours, theirs)
		}
		// The fast reader and the slow one agree.
		if fast, ok := readStored(b); ok {
			slow, err := parseAny(b)
			if err != nil || !reflect.DeepEqual(fast, slow) {
				rt.Fatalf("fast %+v\nslow %+v, %v", fast, slow, err)
			}
		}
		// Label reads the same type and workstream.
		label, err := Fact{Seq: e.Seq, JSON: b}.Label()
		if err != nil || label.Type != e.Type || label.Workstream != e.Workstream {
			rt.Fatalf("label %+v of type %q, workstream %q, %v", label, e.Type, e.Workstream, err)
		}
		checkOutline(rt, e)
	})
}

// checkOutline compares the outline of an event with the event.
func checkOutline(t rapid.TB, e Event) {
	f := e.Fact()
	got, err := f.Outline(e.Session, func(string) bool { return false })
	if err != nil || got.Session != e.Session || got.Seq != e.Seq || got.At != e.At || got.Type != e.Type || got.Workstream != e.Workstream ||
		got.Actor.Key() != e.Actor.Key() || got.ClientID != e.ClientID || got.Prev != e.Prev {
		t.Fatalf("outline %+v, %v\nof %s", got, err, f.JSON)
	}
	want, _ := f.Event()
	for name, whole := range map[string]func() (Event, error){
		"another session": func() (Event, error) { return f.Outline("other", func(string) bool { return false }) },
		"whole":           func() (Event, error) { return f.Outline(e.Session, func(typ string) bool { return typ == e.Type }) },
	} {
		if got, err := whole(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %+v, %v\nof %s", name, got, err, f.JSON)
		}
	}
}

// Reading an outline must not take what decoding takes, or a node of a cluster applies half as many events.
func TestOutlineDoesNotDecodeThePayload(t *testing.T) {
	s := newScript(t)
	for _, v := range vectors {
		v.play(s)
	}
	for _, e := range s.events() {
		checkOutline(t, e)
		if got, err := e.Fact().Outline(e.Session, func(string) bool { return false }); err != nil || got.Body != nil || got.Payload != nil {
			t.Fatalf("decoded: %s, %v", e.AppendJSON(nil), err)
		}
	}
	for _, bad := range []string{
		`{"session_id":"s","sequence":1,"timestamp":"2026-01-02T03:04:05.000006Z","type":"agent.text","prev":"00","payload":{}}`,
		`{"session_id":"s","sequence":1,"timestamp":"2026-01-02T03:04:05.000006Z","type":"agent.text","prev":"` + strings.Repeat("0", 34) + `","payload":{}}`,
		`{"session_id":"s","sequence":1,"timestamp":"2026-01-02T03:04:05.000006Z","type":"agent.text","payload":`,
	} {
		if _, err := (Fact{JSON: []byte(bad)}).Outline("s", func(string) bool { return false }); CodeOf(err) != Invalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestStoredEventsUseTheFastReader(t *testing.T) {
	s := newScript(t)
	for _, v := range vectors {
		v.play(s)
	}
	for _, e := range s.events() {
		if _, ok := readStored(e.AppendJSON(nil)); !ok {
			t.Fatalf("is read the slow way: %s", e.AppendJSON(nil))
		}
	}
}

func TestAppendStringAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.OneOf(anyText, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(rt, "s")
		ours := exactjson.AppendString([]byte("x"), s)[1:]
		if !utf8.Valid(ours) || bytes.ContainsAny(ours, "\n\r\u2028\u2029") {
			rt.Fatalf("%q", ours)
		}
		var got, want string
		if err := json.Unmarshal(ours, &got); err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal([]byte(jsonOf(rt, s)), &want); err != nil || got != want {
			rt.Fatalf("%q became %q, want %q", s, got, want)
		}
	})
}

func TestLabelReadsOnlyTheEnvelope(t *testing.T) {
	for name, e := range map[string]Event{
		"client_id":           {Type: "user.message", ClientID: `x","type":"evil.type","workstream_id":"w`},
		"client_id, payload":  {Type: "user.message", ClientID: `,"payload":{"a":1},"type":"evil.type"`},
		"client_id ends in ,": {Type: "user.message", ClientID: `,`, Prev: Hash{1}},
		"actor":               {Type: "user.message", Actor: Actor{Kind: User, ID: `,"workstream_id":"evil"`, Name: `,"type":"evil.type"`}},
		"payload":             {Type: "user.message", Payload: raw(`{"text":"a","workstream_id":"evil","type":"evil.type"}`)},
		"payload alone":       {Type: "odd.thing", Payload: raw(`{"x":1,"type":"evil.type","payload":{"y":2,"workstream_id":"evil"}}`)},
		"turn":                {Type: "user.message", Turn: `a,"workstream_id":"evil"`},
		"real line":           {Type: "agent.text", Workstream: "w1", ClientID: `,"workstream_id":"evil"`},
		"escaped line":        {Type: "agent.text", Workstream: `quote"d\`},
		"line with non-ASCII": {Type: "agent.text", Workstream: "é\u2028"},
	} {
		e.Session, e.Seq = "s", 1
		if e.Payload == nil {
			e.Payload = raw(`{"text":"a"}`)
		}
		label, err := e.Fact().Label()
		if err != nil || label != (Label{e.Type, e.Workstream}) {
			t.Errorf("%s: %+v, %v\n%s", name, label, err, e.AppendJSON(nil))
		}
	}
	// Written by another program, with members in another order.
	foreign := Fact{Seq: 1, JSON: []byte(`{"payload":{"text":"a","x":{},"type":"evil.type"},"workstream_id":"w1","type":"agent.text","sequence":1,"session_id":"s"}`)}
	if label, err := foreign.Label(); err != nil || label != (Label{"agent.text", "w1"}) {
		t.Errorf("foreign: %+v, %v", label, err)
	}
	if _, err := (Fact{JSON: []byte(`{"a":1}`)}).Label(); CodeOf(err) != Invalid {
		t.Error(err)
	}
}

func TestInvalidEnvelopesAreRefused(t *testing.T) {
	good := `{"session_id":"s","sequence":1,"timestamp":"2026-01-02T03:04:05.000006Z","type":"agent.text","payload":{"text":"a"}}`
	if _, err := ParseEvent([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"s"`, `""`}, {`"s"`, `"a b"`}, {`"s"`, `"a\"b"`}, {`"s"`, `7`}, {`:1,`, `:0,`}, {`:1,`, `:-1,`}, {`:1,`, `:1.5,`}, {`:1,`, `:"1",`},
		{`:1,`, `:01,`}, {`agent.text`, ``}, {`agent.text`, `Agent`}, {`agent.text`, `a\"b`}, {`T03`, `T33`}, {`2026-01-02T03:04:05.000006Z`, `yesterday`},
		{`"payload"`, `"prev":"00","payload"`}, {`"payload"`, `"prev":"` + strings.Repeat("zz", 16) + `","payload"`},
		{`{"text":"a"}`, `{"text":1}`}, {`{"text":"a"}`, `"a"`}, {`{"text":"a"}`, ``}, {`{"text":"a"}`, `{"text":"a"`}, {`{"text":"a"}`, `{"text":"a"}}`},
		{`"payload"`, `"actor":7,"payload"`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if _, err := ParseEvent([]byte(bad)); CodeOf(err) != Invalid {
			t.Errorf("%s is accepted: %v", bad, err)
		}
	}
	// Of repeated members the last one counts, as in encoding/json.
	e, err := ParseEvent([]byte(strings.Replace(good, `}}`, `},"sequence":9}`, 1)))
	if err != nil || e.Seq != 9 || string(e.Payload) != `{"text":"a"}` {
		t.Errorf("%+v %v", e, err)
	}
	e, err = ParseEvent([]byte(strings.NewReplacer(`agent.text`, `odd.thing`, `}}`, `},"sequence":9}`).Replace(good)))
	if err != nil || e.Seq != 9 || string(e.Payload) != `{"text":"a"}` {
		t.Errorf("%+v %v", e, err)
	}
	for _, stamp := range []string{"2026-01-02T03:04:05Z", "2026-01-02T05:04:05.000000+02:00"} {
		e, err := ParseEvent([]byte(strings.Replace(good, "2026-01-02T03:04:05.000006Z", stamp, 1)))
		if err != nil || e.At.String() != "2026-01-02T03:04:05.000000Z" {
			t.Errorf("%s: %s %v", stamp, e.At, err)
		}
	}
	if e, err := ParseEvent([]byte(`{"session_id":"s","sequence":1,"type":"odd.thing"}`)); err != nil || string(e.AppendJSON(nil)) == "" {
		t.Errorf("%+v %v", e, err)
	}
}

func TestChangedEventBreaksTheHashChain(t *testing.T) {
	a := Event{Session: "s", Seq: 1, Type: "odd.thing", Payload: raw("1")}
	b := Event{Session: "s", Seq: 2, Type: "odd.thing", Payload: raw("1"), Prev: a.Fact().Hash()}
	read, err := b.Fact().Event()
	if err != nil || read.Prev != a.Fact().Hash() || len(read.Prev.String()) != 32 || (Hash{}).String() != "" {
		t.Error(read.Prev, err)
	}
	c := a
	c.Payload = raw("2")
	if c.Fact().Hash() == a.Fact().Hash() {
		t.Error("another payload, the same hash")
	}
}

func TestPreviewRoundTrips(t *testing.T) {
	p := Preview{Block: "b7", Offset: 2, Text: "é\"", Kind: "", Workstream: "main", Turn: "t-1"}
	if err := p.Normalize(); err != nil || p.End != 5 || p.Kind != TextBlock || p.Workstream != "" {
		t.Fatal(p, err)
	}
	var got Preview
	if err := json.Unmarshal(p.AppendJSON(nil), &got); err != nil || got != p {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []Preview{
		{Block: "a b", Text: "x"}, {Text: "x"}, {Block: "b"}, {Block: "b", Text: "\xc3"}, {Block: "b", Text: "x", Offset: -1},
		{Block: "b", Text: "x", Kind: "song"}, {Block: "b", Text: "x", Workstream: "a/b"}, {Block: "b", Text: "x", Offset: MaxBlock + 1},
	} {
		wantCode(t, bad.Normalize(), Invalid)
	}
	wantCode(t, (&Preview{Block: "b", Text: "xx", Offset: MaxBlock - 1}).Normalize(), TooLarge)
}

func TestTextAfterLeavesOutWhatAReaderHas(t *testing.T) {
	p := Preview{Offset: 2, Text: "cde"}
	for have, want := range []string{"", "", "cde", "de", "e", "", ""} {
		if got := p.TextAfter(have); got != want {
			t.Errorf("after %d bytes: %q, want %q", have, got, want)
		}
	}
}
