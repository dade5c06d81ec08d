package session

import (
	"reflect"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// A field of chat.Draft that sentDraft does not have would be lost on the way to the owner of a session.
func TestDraftIsWholeAfterTheWayToTheOwner(t *testing.T) {
	d := chat.Draft{
		Type: "user.message", Payload: json.RawMessage(`{"text":"hello"}`), ClientID: "c", Workstream: "w", Parent: "p", Turn: "t", Attempt: 2,
		Via: "nemo", Interrupt: true, Expect: &chat.Expected{Turn: "t", Queue: []chat.Seq{3}}, AfterSeq: 4, File: &chat.FileName{FileInfo: chat.FileInfo{Path: "a.txt"}, IfAbsent: true},
	}
	for i, v := 0, reflect.ValueOf(d); i < v.NumField(); i++ {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Body" && v.Field(i).IsZero() {
			t.Errorf("this test does not set the field %s", f.Name)
		}
	}
	b, err := json.Marshal(sendable(&d))
	if err != nil {
		t.Fatal(err)
	}
	var sent sentDraft
	if err := json.Unmarshal(b, &sent); err != nil {
		t.Fatal(err)
	}
	if got := sent.draft(); !reflect.DeepEqual(got, d) {
		t.Errorf("\n got %+v\nwant %+v", got, d)
	}
}

func TestTextIsUnchangedAfterTheWayToTheOwner(t *testing.T) {
	for _, want := range []sentText{"p-1", "", "[]", "p-\xff", "\xff\xfe", "\ufffd"} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got sentText
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Errorf("%q is %q on the other node (%v)", want, got, err)
		}
	}
}

// Clients get the same bytes whether the node that they talk to owns the session or not.
func TestErrorIsEncodedInTheSameWayOnAllNodes(t *testing.T) {
	e := chat.Errorf(chat.Conflict, "no").WithReason(chat.SessionChanged).With("answered_by", chat.Actor{Kind: chat.User, ID: "bob"}).
		With("request_id", "p-\xff").With("text", "<a>").With("sequence", chat.Seq(5)).With("have", 4).With("list", []string{"a", "b"})
	b, err := json.Marshal(encodeError(e))
	if err != nil {
		t.Fatal(err)
	}
	var sent callResult
	if err := json.Unmarshal(b, &sent); err != nil {
		t.Fatal(err)
	}
	got := chat.Public(sent.Error.decode())
	if got.Code != e.Code || got.Reason != e.Reason || got.Msg != e.Msg {
		t.Errorf("got %+v, want %+v", got, e)
	}
	here, _ := json.Marshal(e.Details)
	there, _ := json.Marshal(got.Details)
	if string(here) != string(there) {
		t.Errorf("\n got %s\nwant %s", there, here)
	}
	if got.Details["sequence"] != chat.Seq(5) || got.Details["have"] != 4 || got.Details["text"] != "<a>" {
		t.Errorf("the types of %v are different", got.Details)
	}
}
