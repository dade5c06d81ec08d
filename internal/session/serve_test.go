package session

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A token has access to the sessions of the agents that it may serve, and writes there as
// that agent. It has no access to other sessions and turns.
func TestTokenWritesOnlyAsItsAgents(t *testing.T) {
	token := func(kind chat.ActorKind, id string, agents ...string) chat.Caller {
		return chat.Caller{Actor: chat.Actor{Kind: kind, ID: id}, Scopes: []chat.Scope{chat.ScopeAgent}, Agents: agents}
	}
	elsewhere := token(chat.Agent, "demo")
	elsewhere.Workspace = "elsewhere"
	none := token(chat.Agent, chat.NoAgent)
	for name, c := range map[string]struct {
		caller chat.Caller
		see    bool   // the session that names the agent demo
		as     string // the actor of its events there
	}{
		"the agent itself":                   {token(chat.Agent, "demo"), true, "demo"},
		"another agent":                      {token(chat.Agent, "else"), false, ""},
		"another agent that serves it":       {token(chat.Agent, "ops", "demo", "b"), true, "ops"},
		"a user that serves it":              {token(chat.User, "ops", "demo"), true, "demo"},
		"a user that serves every agent":     {token(chat.User, "ops", chat.AnyAgent), true, "demo"},
		"an agent that serves only others":   {token(chat.Agent, "demo", "b"), false, ""},
		"another workspace":                  {elsewhere, false, ""},
		"without the scope agent":            {chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "demo"}, Scopes: []chat.Scope{chat.ScopeUser}}, false, ""},
		"an agent with the name of no agent": {none, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestStore(t, Options{})
			id := w.begin("s", chat.NewSession{Agent: "demo"})
			w.begin("quiet", chat.NewSession{Agent: chat.NoAgent})
			w.say(id, "hello")
			turn := w.turn(id)
			if _, err := w.Get(ctx, c.caller, "quiet"); chat.CodeOf(err) != chat.NotFound {
				t.Errorf("it sees a session without an agent: %v", err)
			}
			draft := chat.NewDraft(chat.AgentText{Text: "x"})
			draft.Turn = turn.Turn
			evs, err := w.Append(ctx, c.caller, id, []chat.Draft{draft})
			if !c.see {
				if chat.CodeOf(err) != chat.NotFound {
					t.Error(err)
				}
				return
			}
			if err != nil || evs[0].Actor.Kind != chat.Agent || evs[0].Actor.ID != c.as || evs[0].Turn != turn.Turn {
				t.Fatal(evs, err)
			}
		})
	}
}

// A member with the scope agent writes as itself, and not in the turns of an agent that it
// may not serve.
func TestMemberCannotWriteInTurnsOfAnAgent(t *testing.T) {
	w := newTestStore(t, Options{})
	member := user("eve", chat.ScopeAgent)
	helper := chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "helper"}, Scopes: []chat.Scope{chat.ScopeAgent}}
	id := w.begin("s", chat.NewSession{Agent: "demo", Members: []chat.Member{{Actor: member.Actor, Role: chat.Owner}, {Actor: helper.Actor, Role: chat.Owner}}})
	w.say(id, "hello")
	turn := w.turn(id)
	for _, c := range []chat.Caller{member, helper} {
		draft := chat.NewDraft(chat.AgentText{Text: "x"})
		evs, err := w.Append(ctx, c, id, []chat.Draft{draft})
		if err != nil || evs[0].Actor.ID != c.Actor.ID || evs[0].Turn != "" {
			t.Fatal(evs, err)
		}
		draft.Turn = turn.Turn
		_, err = w.Append(ctx, c, id, []chat.Draft{draft})
		w.wantCode(err, chat.Denied)
		if !strings.Contains(err.Error(), `only the agent "`+c.Actor.ID+`"`) {
			t.Error(err)
		}
		err = w.Preview(ctx, c, id, []chat.Preview{{Block: "b", Turn: turn.Turn, Text: "x"}})
		w.wantCode(err, chat.Denied)
		if err := w.Preview(ctx, c, id, []chat.Preview{{Block: chat.BlockID("of-" + c.Actor.ID), Text: "x"}}); err != nil {
			t.Error(err)
		}
	}
	for _, b := range w.hub.Blocks(id) {
		if b.Turn != "" {
			t.Errorf("%+v stands in the agent's turn", b)
		}
	}
}

// Only the server sets which agent's sidecar serves a session.
func TestOnlyTheServerSetsServedBy(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent, Members: []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}})
	name := "deployer"
	admin := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "root"}, Scopes: []chat.Scope{chat.ScopeAdmin}, AllWorkspaces: true}
	for _, c := range []chat.Caller{ann, admin} {
		_, err := w.Update(ctx, c, id, chat.SessionUpdated{ServedBy: &name})
		w.wantCode(err, chat.Denied)
	}
	if s, err := w.Update(ctx, chat.Trusted, id, chat.SessionUpdated{ServedBy: &name}); err != nil || s.ServedBy != name {
		t.Fatal(s, err)
	}
	fork, err := w.Fork(ctx, bob, id, chat.Fork{})
	if err != nil || fork.ServedBy != "" {
		t.Fatal(fork, err)
	}
}
