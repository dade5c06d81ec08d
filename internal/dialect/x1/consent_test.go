package x1

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// A message of a sidecar is not a person's consent, with any token and on any subject.
func TestSidecarsDoNotConsent(t *testing.T) {
	w := newServer(t, options{secured: true})
	w.begin("s1", chat.Member{Actor: chat.Actor{Kind: chat.User, ID: "root"}, Role: chat.Owner})
	sidecar := w.with(w.credential("s1", tokenOf("root"), Sidecar))
	old := w.dial(nats.UserInfo(sidecarUser, tokenOf("root")))
	permit := event("agent.permission_request", `{"request_id":"r1","scopes":["spawn"]}`, 1)
	permit.ClientID = "ask"
	sidecar.say("s1", Events, permit)
	answers := []Message{
		{Type: "user.permission_response", Payload: []byte(`{"request_id":"r1","granted":["spawn"],"duration":"always","user_id":"alice"}`), ClientID: "a"},
		{Type: "user.input_response", Payload: []byte(`{"request_id":"r1","text":"yes","user_id":"alice"}`), ClientID: "b"},
	}
	for name, way := range map[string]struct {
		c    *client
		kind Kind
	}{"a credential": {sidecar, Events}, "an old sidecar's events": {old, Events}, "an old sidecar's input": {old, Input}} {
		for _, m := range answers {
			r := way.c.askMsg(&nats.Msg{Subject: Subject("s1", way.kind), Data: encoded("s1", m)})
			if r.Error == nil {
				t.Errorf("%s: %s was taken: %+v", name, m.Type, r)
			}
		}
	}
	st, err := w.Sessions.State(context.Background(), chat.Trusted, "s1")
	if err != nil || st.Prompt("r1") == nil || len(st.Granted) != 0 {
		t.Fatalf("%+v %v", st, err)
	}
	person := w.with(w.credential("s1", tokenOf("alice"), Participant))
	person.say("s1", Input, Message{Type: "user.input_response", Payload: []byte(`{"request_id":"r1","text":"yes"}`)})
}

// A sidecar may serve a session only if its token may serve the session's agent.
func TestASidecarServesItsAgent(t *testing.T) {
	w := newServer(t, options{secured: true})
	ctx := t.Context()
	alice := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}}
	token := func(id string, agents ...string) chat.Caller {
		return chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: id}, Scopes: []chat.Scope{chat.ScopeAgent}, Agents: agents}
	}
	members := []chat.Member{{Actor: token("helper").Actor, Role: chat.Owner}}
	for id, agent := range map[chat.SessionID]string{"of-coder": "coder", "of-nobody": chat.NoAgent, "attended": chat.NoAgent} {
		if _, _, err := w.Sessions.Create(ctx, alice, chat.NewSession{ID: id, Agent: agent, Members: members}); err != nil {
			t.Fatal(err)
		}
	}
	coder := "coder"
	if _, err := w.Sessions.Update(ctx, chat.Trusted, "attended", chat.SessionUpdated{ServedBy: &coder}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		caller chat.Caller
		id     chat.SessionID
		want   chat.Code
	}{
		"the agent":                    {token("coder"), "of-coder", ""},
		"one that serves it":           {token("ops", "coder"), "of-coder", ""},
		"a member":                     {token("helper"), "of-coder", chat.Denied},
		"a stranger":                   {token("other"), "of-coder", chat.NotFound},
		"a member, of nobody":          {token("helper"), "of-nobody", ""},
		"a member, of another sidecar": {token("helper"), "attended", chat.Denied},
	} {
		_, err := w.dialect.issue(ctx, c.caller, c.id, Sidecar, 0)
		if chat.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == chat.Denied && !strings.Contains(err.Error(), "helper") {
			t.Errorf("it does not say whom the token serves: %v", err)
		}
	}
}
