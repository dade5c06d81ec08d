package vertesia

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func isRefusal(t *testing.T, err error) {
	t.Helper()
	if code := chat.CodeOf(err); code != chat.Invalid && code != chat.TooLarge {
		t.Errorf("refused with %q: %v", code, err)
	}
}

// Every posted body is refused with a reason, or becomes an event that is a message
// again.
func FuzzPosted(f *testing.F) {
	for _, s := range []string{
		`{"type":"thought","message":"x","details":{"tool":"t","tool_event":"failed"}}`, `{"t":9,"m":"?","d":{"ux":{"options":[{"id":"a","label":"A"}]}}}`,
		`{"t":2,"d":{"plan":[{"id":1,"goal":"g"}]}}`, `{"t":13,"d":{"batch_id":"b","items":[{}]}}`, `{"t":4,"w":"x"}`, `{"type":14}`, `{"t":7,"i":"a:b","d":null}`, `{"t":"x"}`, `[`, "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, _, err := parseMessage(b); err != nil {
			isRefusal(t, err)
		} else {
			out, err := json.Marshal(m)
			if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			again, _, err := parseMessage(out)
			if second, _ := json.Marshal(again); err != nil || !bytes.Equal(out, second) {
				t.Errorf("%s is read as %+v and written as %s", b, m, out)
			}
		}
		m, err := decodePosted(b)
		if err != nil {
			isRefusal(t, err)
			return
		}
		if m.T == StreamingChunk {
			return
		}
		d, err := draftOf(m)
		if err != nil {
			isRefusal(t, err)
			return
		}
		if err := d.Normalize(); err != nil {
			isRefusal(t, err)
			return
		}
		e := &chat.Event{Session: "s", Seq: 1, At: 1e15, Type: d.Type, Body: d.Body, Payload: d.Payload, Workstream: d.Workstream, Via: d.Via}
		for _, one := range messagesOf(e) {
			if out := one.append(nil, e.At, one.workstream); !json.Valid(out) {
				t.Errorf("%s becomes %s", b, out)
			}
		}
	})
}

// Every body of a start is refused with a reason, or can be stored.
func FuzzStart(f *testing.F) {
	for _, s := range []string{
		`{"interaction":"demo","data":{"task":"x"},"interactive":false,"config":{"model":"m"},"auth_token":"secret"}`, `{"interaction":"a","data":"text"}`,
		`{"interaction":"a","data":{"a":"x","b":"y"}}`, `{"interaction":"a","data":[1]}`, `{"process_id":"p"}`, `{}`, `null`, `[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, kept, err := decodeStart(b)
		if err != nil {
			isRefusal(t, err)
			return
		}
		if kept["auth_token"] != nil {
			t.Error("a secret is kept")
		}
		_ = firstMessage(p.Data)
		metadata, err := kept.into(nil)
		if err != nil {
			t.Fatal(err)
		}
		draft := chat.NewDraft(chat.SessionStarted{Metadata: metadata})
		if err := draft.Normalize(); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		if again := metaOf(&chat.Session{Metadata: metadata}); again.once() != kept.once() {
			t.Error("what is kept is read as something else")
		}
	})
}

// Every frame and every signal is read or refused.
func FuzzSignal(f *testing.F) {
	for _, s := range []string{`{"type":"signal","signalName":"UserInput","data":{"message":"x"},"requestId":1}`, `{"type":"ping"}`, `{"message":"x","metadata":{"request_input_response":{"request_id":"r"}}}`, `7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []any{&socketFrame{}, &userInput{}, &fileSignal{}, &workstreamOrder{}, &inputMetadata{}} {
			if err := decodeSignal("x", b, v); err != nil {
				isRefusal(t, err)
			}
		}
	})
}
