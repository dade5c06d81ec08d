package x1

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

func stopping(payload string) Message {
	return Message{Type: "turn.stop_requested", Payload: json.RawMessage(payload)}
}

func TestStopByNATS(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events := c.follow(Subject("s1", Events))
	c.say("s1", Input, message("/sleep 600"))
	events.until("the turn", typ("turn.started"))
	if r := c.say("s1", Input, stopping(`{"turn_id":"t-earlier"}`)); r.Stopped == nil || *r.Stopped {
		t.Fatalf("a stop of an earlier turn: %+v", r)
	}
	if r := c.say("s1", Input, stopping(`{"reason":"enough","user_id":"u1"}`)); r.Stopped == nil || !*r.Stopped {
		t.Fatalf("%+v", r)
	}
	asked := events.until("the request", typ("turn.stop_requested"))
	if b := asked.Body.(chat.TurnStopRequested); b.Reason != "enough" || b.By.ID != "u1" {
		t.Errorf("%+v", b)
	}
	if b := events.until("the end", typ("turn.completed")).Body.(chat.TurnCompleted); b.Outcome != chat.Stopped {
		t.Errorf("it ended %s", b.Outcome)
	}
	if r := c.say("s1", Input, stopping(`{}`)); r.Stopped == nil || *r.Stopped {
		t.Errorf("nothing runs: %+v", r)
	}
	if r := c.ask("s1", Input, stopping(`[]`)); r.Error == nil || r.Error.Reason != chat.Invalid {
		t.Errorf("%+v", r)
	}
	if r := c.ask("none", Input, stopping(`{}`)); r.Error == nil || r.Error.Reason != chat.NotFound {
		t.Errorf("%+v", r)
	}
}

// A viewer cannot stop a turn; a participant can.
func TestStopNeedsAnAnswerer(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("s1", chat.Member{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Role: chat.Viewer})
	viewer := w.with(w.credential("s1", tokenOf("bob"), Viewer))
	viewer.refusedBy("a viewer stops", func() { viewer.tell("s1", Input, stopping(`{}`)) })
	if r := w.with(w.credential("s1", tokenOf("alice"), Participant)).say("s1", Input, stopping(`{}`)); r.Stopped == nil || !*r.Stopped {
		t.Errorf("%+v", r)
	}
}

// A session with a sidecar has no turns on the server: the sidecar gets the stop request.
func TestStopReachesTheSidecar(t *testing.T) {
	w := newServer(t, options{})
	s := &x1Sidecar{client: w.dial(nats.UserInfo(sidecarUser, "")), id: "pod"}
	input := s.follow(Subject("pod", Input))
	s.sayBuffered("agent.text", `{"text":"working"}`)
	w.until("it is attended", func() bool { return len(w.Events("pod")) == 2 })
	if r := w.dial().say("pod", Input, stopping(`{"reason":"enough"}`)); r.Stopped == nil || !*r.Stopped {
		t.Fatalf("%+v", r)
	}
	delivered := input.until("the stop", typ("turn.stop_requested"))
	if b := delivered.Body.(chat.TurnStopRequested); b.Reason != "enough" || delivered.Seq != 3 {
		t.Errorf("%+v", delivered.Event)
	}
	for _, m := range input.all() {
		if m.Header.Get(HeaderSequence) == "" {
			t.Errorf("a raw copy: %s", m.Data)
		}
	}
}
