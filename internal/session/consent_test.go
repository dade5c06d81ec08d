package session

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

// Only people answer approvals and permissions; agents cannot, with any scope and any
// method. Other prompts may be answered by every caller except the agent that asks.
func TestAgentsCannotApprove(t *testing.T) {
	agent := func(id string, scopes ...chat.Scope) chat.Caller {
		return chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: id}, Scopes: scopes}
	}
	serves := agent("ops", chat.ScopeAgent)
	serves.Agents = []string{"demo", "other"}
	person := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "script"}, Scopes: []chat.Scope{chat.ScopeAgent}}
	callers := map[string]struct {
		caller          chat.Caller
		consent, answer chat.Code
	}{
		"the owner":                        {ann, "", ""},
		"a member":                         {bob, "", ""},
		"an administrator":                 {chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "root"}, Scopes: []chat.Scope{chat.ScopeAdmin}}, "", ""},
		"the server":                       {chat.Trusted, "", ""},
		"the agent that asks":              {bot, chat.Denied, chat.Denied},
		"that agent with every scope":      {agent("demo", chat.ScopeUser, chat.ScopeAgent, chat.ScopeAdmin), chat.Denied, chat.Denied},
		"a token that serves it":           {serves, chat.Denied, chat.Denied},
		"another agent":                    {agent("helper", chat.ScopeUser, chat.ScopeAgent), chat.Denied, ""},
		"an agent with the scope admin":    {agent("helper", chat.ScopeAdmin), chat.Denied, ""},
		"a user with the scope agent only": {person, chat.Denied, ""},
		"a user who only serves it":        {chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "clerk"}, Scopes: []chat.Scope{chat.ScopeUser, chat.ScopeAgent}, Agents: []string{"demo"}}, chat.Denied, ""},
	}
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}, {Actor: agent("helper").Actor, Role: chat.Owner}, {Actor: agent("ops").Actor, Role: chat.Owner}, {Actor: person.Actor, Role: chat.Owner}}
	for who, c := range callers {
		for kind, k := range promptKinds {
			want := c.answer
			if kind == "approval" || kind == "permission" {
				want = c.consent
			}
			for _, way := range []string{"answer", "append"} {
				t.Run(who+"/"+kind+"/"+way, func(t *testing.T) {
					w := newTestStore(t, Options{})
					id := w.begin("s", chat.NewSession{Members: members})
					request := w.ask(id, k.ask)
					var err error
					if way == "answer" {
						_, err = w.Answer(ctx, c.caller, id, request, k.good)
					} else {
						body, berr := k.good.Body(w.state(id).Prompt(request))
						if berr != nil {
							t.Fatal(berr)
						}
						_, err = w.Append(ctx, c.caller, id, []chat.Draft{chat.NewDraft(body)})
					}
					if got := chat.CodeOf(err); got != want {
						t.Fatalf("%q (%v), want %q", got, err, want)
					}
					st := w.state(id)
					if open := st.Prompt(request) != nil; open != (want != "") || want != "" && len(st.Approved)+len(st.Granted) != 0 {
						t.Errorf("open %t, approved %v, granted %v", open, st.Approved, st.Granted)
					}
				})
			}
		}
	}
}

// The result of a tool that the sender of a message runs is not an approval: an agent that
// sent the message may send it, the agent that answers may not.
func TestAgentAnswersForItsClientTools(t *testing.T) {
	helper := chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "helper"}, Scopes: []chat.Scope{chat.ScopeAgent}}
	for name, mixed := range map[string]bool{"its tools alone": false, "with one of the server's": true} {
		t.Run(name, func(t *testing.T) {
			w := newTestStore(t, Options{})
			id := w.begin("s", chat.NewSession{Members: []chat.Member{{Actor: helper.Actor, Role: chat.Answerer}}})
			calls := []chat.ApprovalCall{{CallID: "a", Tool: "mine", Client: true}}
			decisions := []chat.Decision{{CallID: "a", Approve: true, Result: []byte(`"done"`)}}
			if mixed {
				calls, decisions = append(calls, chat.ApprovalCall{CallID: "b", Tool: "deploy"}), append(decisions, chat.Decision{CallID: "b", Approve: true})
			}
			request := w.ask(id, chat.AgentApprovalRequest{Calls: calls})
			_, err := w.Answer(ctx, bot, id, request, chat.Answer{Decisions: decisions})
			w.wantCode(err, chat.Denied)
			_, err = w.Answer(ctx, helper, id, request, chat.Answer{Decisions: decisions})
			if mixed {
				w.wantCode(err, chat.Denied)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// An agent that owns a session cannot turn on automatic approval.
func TestAgentsCannotTurnOnAutomaticApproval(t *testing.T) {
	w := newTestStore(t, Options{})
	for _, a := range []chat.Approvals{chat.ApproveReview, chat.ApproveAll} {
		settings := chat.Settings{Approvals: a}
		_, _, err := w.Create(ctx, bot, chat.NewSession{Settings: settings})
		w.wantCode(err, chat.Denied)
		own, _, err := w.Create(ctx, bot, chat.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Update(ctx, bot, own.ID, chat.SessionUpdated{Settings: &settings})
		w.wantCode(err, chat.Denied)
		// An agent may keep or remove the setting that a person chose.
		if _, err := w.Update(ctx, chat.Trusted, own.ID, chat.SessionUpdated{Settings: &settings}); err != nil {
			t.Fatal(err)
		}
		settings.Model = "m"
		if _, err := w.Update(ctx, bot, own.ID, chat.SessionUpdated{Settings: &settings}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Update(ctx, bot, own.ID, chat.SessionUpdated{Settings: &chat.Settings{}}); err != nil {
			t.Fatal(err)
		}
	}
}

// Automatic approval does not apply in a fork.
func TestForkHasNoAutomaticApproval(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Members: []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}})
	for _, kind := range []string{"approval", "permission"} {
		if _, err := w.Answer(ctx, ann, id, w.ask(id, promptKinds[kind].ask), promptKinds[kind].good); err != nil {
			t.Fatal(err)
		}
	}
	if st := w.state(id); len(st.Approved) != 1 || len(st.Granted) != 1 {
		t.Fatal(st.Approved, st.Granted)
	}
	fork, err := w.Fork(ctx, bob, id, chat.Fork{})
	if err != nil {
		t.Fatal(err)
	}
	if st := w.state(fork.ID); len(st.Approved) != 0 || len(st.Granted) != 0 {
		t.Error(st.Approved, st.Granted)
	}
}
