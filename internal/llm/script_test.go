package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// script writes a log that follows the rules of a session.
type script struct {
	state  chat.State
	number chat.Number
	events []chat.Event
	facts  []chat.Fact
}

var (
	mira = chat.Actor{Kind: chat.User, ID: "mira", Name: "Mira"}
	bot  = chat.Actor{Kind: chat.Agent, ID: "bot"}
)

func newScript() *script {
	s := &script{number: core.NumberFor("s-1", 0)}
	s.add(chat.Draft{Body: chat.SessionStarted{Agent: "bot"}}, mira, "")
	return s
}

func (s *script) id(prefix string) string {
	return chat.MakeID(s.number, s.state.Last+1).Text(prefix)
}

func (s *script) add(d chat.Draft, by chat.Actor, turn chat.TurnID) *chat.Event {
	if err := d.Normalize(); err != nil {
		panic(err)
	}
	e := chat.Event{
		Session: "s-1", Seq: s.state.Last + 1, At: 1_700_000_000_000_000 + chat.At(s.state.Last)*1000, Type: d.Type,
		ID: chat.EventID(s.id(chat.EventPrefix)), Turn: turn, Workstream: d.Workstream, Actor: by, ClientID: d.ClientID,
		Payload: d.Payload, Body: d.Body,
	}
	s.state.Apply(&e)
	s.events = append(s.events, e)
	return &s.events[len(s.events)-1]
}

// turn is the turn that runs on a line.
func (s *script) turn(line string) chat.TurnID {
	if t := s.state.Line(line).Turn; t != nil {
		return t.ID
	}
	return ""
}

// user adds a user message; a turn starts if none runs.
func (s *script) user(text string) chat.Seq {
	e := s.add(chat.Draft{Body: chat.UserMessage{Text: text}, ClientID: "c-" + text}, mira, "")
	seq := e.Seq
	s.next("")
	return seq
}

func (s *script) next(line string) {
	l := s.state.Line(line)
	if l.Turn != nil || l.Next() == 0 {
		return
	}
	id := chat.TurnID(s.id(chat.TurnPrefix))
	s.add(chat.Draft{Body: chat.TurnStarted{TurnID: id, Trigger: l.Next(), Agent: "bot"}, Workstream: line}, chat.System, id)
}

// agent adds an event of the agent in the running turn.
func (s *script) agent(b chat.Body) *chat.Event {
	return s.add(chat.Draft{Body: b}, bot, s.turn(""))
}

// answer adds a person's answer to a prompt.
func (s *script) answer(b chat.Body) *chat.Event {
	return s.add(chat.Draft{Body: b, ClientID: fmt.Sprint("a-", s.state.Last)}, mira, s.turn(""))
}

func (s *script) done() {
	s.end(chat.Done)
}

func (s *script) end(o chat.Outcome) {
	id := s.turn("")
	s.add(chat.Draft{Body: chat.TurnCompleted{TurnID: id, Outcome: o}}, chat.System, id)
	s.next("")
}

// foldAll folds a log.
func foldAll(events []chat.Event, opt Options) []Message {
	f := NewFold(opt)
	for i := range events {
		f.Apply(&events[i])
	}
	return f.Messages()
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// Read and State make the script a Log.
func (s *script) Read(_ context.Context, r chat.Range) ([]chat.Fact, bool, error) {
	for i := len(s.facts); i < len(s.events); i++ {
		s.facts = append(s.facts, s.events[i].Fact())
	}
	to := len(s.facts)
	if r.Before > 0 {
		to = min(to, int(r.Before)-1)
	}
	facts := slices.Clone(s.facts[min(int(r.After), to):to])
	if r.Desc {
		slices.Reverse(facts)
	}
	if r.Limit > 0 && len(facts) > r.Limit {
		return facts[:r.Limit], true, nil
	}
	return facts, false, nil
}

func (s *script) State(context.Context) (*chat.State, error) { return s.state.Clone(), nil }

// randomLog draws a log that follows the rules of a session.
func randomLog(rt *rapid.T, steps int) *script {
	s := newScript()
	if rapid.IntRange(0, 4).Draw(rt, "nobody") == 0 {
		none := chat.NoAgent
		s.add(chat.Draft{Body: chat.SessionUpdated{Agent: &none}}, chat.System, "")
	} else if rapid.Bool().Draw(rt, "steer") {
		p := chat.Steer
		s.add(chat.Draft{Body: chat.SessionUpdated{Policy: &p}}, chat.System, "")
	}
	var calls, prompts, lines []string
	var asked []chat.ApprovalCall
	drop := func(list *[]string) string {
		id := (*list)[0]
		*list = (*list)[1:]
		return id
	}
	for range rapid.IntRange(1, steps).Draw(rt, "steps") {
		fresh := fmt.Sprint(s.state.Last)
		switch rapid.IntRange(0, 20).Draw(rt, "step") {
		case 0, 1:
			s.user("m" + fresh)
		case 2:
			s.agent(chat.AgentThinking{Text: "think " + fresh, Signature: "sig" + fresh})
		case 3, 4:
			s.agent(chat.AgentText{Text: "say " + fresh})
		case 5, 6:
			s.agent(chat.AgentToolCall{CallID: "c" + fresh, Tool: "t" + fresh, Params: raw(`{"n":` + fresh + `}`)})
			calls = append(calls, "c"+fresh)
		case 7, 8:
			if len(calls) > 0 {
				s.agent(chat.AgentToolResult{CallID: drop(&calls), Result: raw(`"r` + fresh + `"`)})
			}
		case 9:
			if len(calls) > 0 {
				s.agent(chat.AgentToolError{CallID: drop(&calls), Tool: "t", Error: "no"})
			}
		case 10, 11:
			if s.turn("") != "" {
				s.end([]chat.Outcome{chat.Done, chat.Stopped, chat.Failed}[rapid.IntRange(0, 2).Draw(rt, "outcome")])
				calls, prompts, asked = nil, nil, nil
			}
		case 12:
			s.agent(chat.AgentUsage{Model: "model-" + fresh})
		case 13:
			c := chat.ApprovalCall{CallID: "a" + fresh, Tool: "rm", Params: raw(`{}`)}
			s.agent(chat.AgentApprovalRequest{RequestID: "r" + fresh, Calls: []chat.ApprovalCall{c}})
			prompts, asked = append(prompts, "r"+fresh), append(asked, c)
		case 14:
			if len(asked) > 0 {
				d := chat.Decision{CallID: asked[0].CallID, Approve: rapid.Bool().Draw(rt, "approve"), Reason: "because"}
				if d.Approve { // in some cases the client ran the call itself
					switch rapid.IntRange(0, 3).Draw(rt, "ran") {
					case 0:
						d.Result = raw(`"by the client"`)
					case 1:
						d.Result = raw(`[{"type":"text","text":"by the client"}]`)
					case 2:
						d.Error = "not there"
					}
				}
				s.answer(chat.UserApprovalResponse{RequestID: drop(&prompts), Decisions: []chat.Decision{d}})
				asked = asked[1:]
				if d.Approve {
					s.agent(chat.AgentToolCall{CallID: d.CallID, Tool: "rm", Params: raw(`{}`)})
					calls = append(calls, d.CallID)
				}
			}
		case 15:
			s.agent(chat.AgentInputRequest{RequestID: "i" + fresh, InputType: chat.InputText, Text: "which?"})
			if rapid.Bool().Draw(rt, "answered") {
				s.answer(chat.UserInputResponse{RequestID: "i" + fresh, Text: "this"})
			} else {
				s.add(chat.Draft{Body: chat.PromptClosed{RequestID: "i" + fresh, Reason: chat.Expired}}, chat.System, s.turn(""))
			}
		case 16:
			if t := s.state.Line("").Turn; t != nil && len(t.Steered)+len(t.Woken) > 0 {
				s.add(chat.Draft{Body: chat.TurnInput{Sequences: slices.Concat(t.Steered, t.Woken)}}, chat.System, t.ID)
			} else if l := s.state.Line(""); len(l.Queue) > 0 {
				s.add(chat.Draft{Body: chat.UserMessageWithdrawn{Sequence: l.Queue[0]}}, mira, "")
			}
		case 17:
			sum := "sum " + fresh
			s.add(chat.Draft{Body: chat.SessionUpdated{Summary: &sum}}, chat.System, "")
		case 18:
			lines = append(lines, "w"+fresh)
			s.agent(chat.WorkstreamLaunched{ID: "w" + fresh, Task: "dig " + fresh, DeadlineSeconds: 30})
		case 19:
			if len(lines) > 0 {
				s.add(chat.Draft{Body: chat.WorkstreamWarning{ID: lines[0], Share: 0.75, Message: "hurry"}}, chat.System, "")
				s.next("")
			}
		case 20:
			if len(lines) > 0 {
				s.add(chat.Draft{Body: chat.WorkstreamCompleted{ID: drop(&lines), Summary: "gold"}}, chat.System, "")
				s.next("")
			}
		}
	}
	return s
}

var testTime = chat.At(1_700_000_000_000_000).Time()
