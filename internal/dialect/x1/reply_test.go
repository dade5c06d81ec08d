package x1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// The sender chooses the reply subject. It must not reach subjects that the sender may not
// publish on.
func TestRepliesGoToTheSenderOnly(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("mine")
	w.begin("other")
	c := w.with(w.credential("mine", tokenOf("alice"), Participant))
	viewer := w.with(w.credential("mine", tokenOf("alice"), Viewer))
	admin := w.root()
	feeds := map[string]*subscription{
		"another viewer": viewer.follow(Subject("mine", Events)), "an administrator": admin.follow("x1.session.>"),
		"the server": admin.follow("parley.*.*.other.*"), "its inlet": admin.follow("parley.*.*.*.input"), "its publisher": admin.follow(outPrefix + ">"),
	}
	before := len(w.Events("mine"))
	for _, reply := range []string{
		Subject("mine", Events), Subject("mine", Presence), Subject("other", Input), Subject("other", Events), upPrefix + "other.input", upPrefix + "mine.events", guestPrefix + "other.input", outPrefix + "mine.events",
		"x1.provider.graph.query", "x1.audit.x", "$JS.API.STREAM.INFO." + ArchiveStream,
	} {
		if err := c.PublishMsg(&nats.Msg{Subject: Subject("mine", History), Reply: reply}); err != nil {
			t.Fatal(err)
		}
		c.flush()
	}
	if _, err := c.Request(Subject("mine", History), nil, testTimeout); err != nil {
		t.Fatal(err)
	}
	viewer.flush()
	admin.flush()
	for who, f := range feeds {
		for _, m := range f.all() {
			if e, err := chat.ParseEvent(m.Data); err == nil && e.Type == "session.started" {
				continue // the beginning was still on its way out
			}
			t.Errorf("%s hears on %s: %s", who, m.Subject, m.Data)
		}
	}
	if n := len(w.Events("mine")); n != before {
		t.Errorf("%d events more", n-before)
	}
	if n := len(w.Events("other")); n != 1 {
		t.Errorf("%d events in the other session", n)
	}
}

// An answer that is neither yes nor no is refused with an example, and one that nobody asked for with the reason.
func TestConsentIsAYesOrANo(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events := c.follow(Subject("s1", Events))
	c.say("s1", Input, message("hello"))
	request := ""
	answer := func(text string) Reply {
		return c.ask("s1", Input, Message{Type: "user.input_response", Payload: json.RawMessage(fmt.Sprintf(`{"text":%q,"request_id":%q}`, text, request))})
	}
	if r := answer("yes"); r.Error == nil || !strings.HasPrefix(r.Error.Description, "no prompt is open") {
		t.Fatal(r)
	}
	c.say("s1", Input, message("/permission mail"))
	request = events.until("the request", typ("agent.permission_request")).Body.(chat.AgentPermissionRequest).RequestID
	if r := answer("perhaps"); r.Error == nil || !strings.Contains(r.Error.Description, "approve or deny") {
		t.Fatal(r)
	}
	if r := answer(" Deny "); r.Error != nil {
		t.Fatal(r.Error)
	}
	events.until("the answer", func(e *got) bool { b, ok := e.Body.(chat.AgentText); return ok && b.Text == "Denied: mail" })
}
