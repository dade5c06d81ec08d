package aisdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// lastStep returns the tool parts behind the last start of a step, which is where the clients look.
func (m *uiMessage) lastStep() (parts []*uiPart) {
	for _, p := range m.Parts {
		switch {
		case p.Type == "step-start":
			parts = nil
		case p.Call != "":
			parts = append(parts, p)
		}
	}
	return parts
}

// sends is what lastAssistantMessageIsCompleteWithApprovalResponses or lastAssistantMessageIsCompleteWithToolCalls says.
func (m *uiMessage) sends() bool {
	approved, done, ran, outputs := false, true, false, true
	for _, p := range m.lastStep() {
		approved = approved || p.State == stateResponded
		done = done && slices.Contains([]string{stateOutput, stateError, stateDenied, stateResponded}, p.State)
		if !p.Executed {
			ran, outputs = true, outputs && (p.State == stateOutput || p.State == stateError)
		}
	}
	return approved && done || ran && outputs
}

const stateResponded = "approval-responded" // of a part whose approval the page has decided

// decide is a person who answers the prompts that a page shows. It reports whether that was possible: an agent may end a call that it
// has asked about.
func (m *uiMessage) decide(prompts []*prompt) bool {
	answered := 0
	for _, p := range prompts {
		before := answered
		for _, part := range m.Parts {
			switch {
			case !slices.Contains(partsOf(&p.Prompt), part.Call):
			case part.State == stateAsked:
				part.State = stateResponded
				answered++
			case part.State == stateInput && !part.Executed:
				part.State = stateOutput
				answered++
			}
		}
		if answered-before < max(1, len(callsOf(&p.Prompt))) {
			return false
		}
	}
	return true
}

// At any moment, a page that loads the chat and gets answers to all prompts that it shows sends them.
func TestALoadedPageSendsItsAnswers(t *testing.T) {
	waited := 0
	for seed := range uint64(300) {
		legacy, l := seed%4 == 0, newRandomLog(seed)
		r := newRun(legacy)
		all := l.entries
		for i := range all {
			r.take(&all[i])
			open := slices.DeleteFunc(slices.Clone(r.prompts), func(p *prompt) bool { return p.at.message != r.at.message })
			if len(open) == 0 || r.ended {
				continue
			}
			waited++
			l.entries = all[:i+1]
			resumed := &uiMessage{Role: roleAssistant}
			for _, c := range selected(t, l, target{whole: true, legacy: legacy}, true) {
				resumed.add(c)
			}
			pages := []*uiMessage{resumed}
			if !legacy {
				var list []*uiMessage
				if err := json.Unmarshal(listed(t, l, legacy), &list); err != nil {
					t.Fatal(err)
				}
				pages = append(pages, list[slices.IndexFunc(list, func(m *uiMessage) bool { return m.ID == messageID(r.turn, r.at.message) })])
			}
			for _, m := range pages {
				if m.decide(open) && !m.sends() {
					b, _ := json.Marshal(m.Parts)
					t.Fatalf("seed %d, entry %d: the page does not send the answers in\n%s", seed, i, b)
				}
			}
		}
	}
	if waited == 0 {
		t.Fatal("no prompt was open")
	}
}

// deciders are agents that ask about a call while others run.
var deciders = map[string][]chat.Body{
	"a call that was not shown": {chat.AgentToolCall{CallID: "a", Tool: "read"}, chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "b", Tool: "deploy"}}}},
	"one of the calls of a step": {
		chat.AgentToolCall{CallID: "b", Tool: "deploy"}, chat.AgentToolCall{CallID: "a", Tool: "read"},
		chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "b", Tool: "deploy"}}},
	},
	"a call of an earlier step": {
		chat.AgentToolCall{CallID: "b", Tool: "deploy"}, chat.AgentToolCall{CallID: "a", Tool: "read"}, chat.AgentToolResult{CallID: "a", Result: []byte("1")},
		chat.AgentText{Text: "and now"}, chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "b", Tool: "deploy"}}},
	},
	"a tool of the page beside it": {
		chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "b", Tool: "deploy"}, {CallID: "a", Tool: "clipboard", Client: true}}},
	},
}

func TestAnApprovalIsAloneInItsStep(t *testing.T) {
	for name, bodies := range deciders {
		for _, approve := range []bool{true, false} {
			s := newTestServer(t, map[string]agent.Agent{"worker": agentFunc(func(ctx context.Context, turn *agent.Turn) error {
				stored, err := turn.AppendAll(ctx, bodies...)
				if err != nil {
					return err
				}
				if _, err := turn.Answer(ctx, stored[len(stored)-1].Body.(chat.AgentApprovalRequest).RequestID); err != nil || !approve {
					return err
				}
				_, err = turn.Append(ctx, chat.AgentToolResult{CallID: "b", Tool: "deploy", Result: []byte(`"done"`)})
				return err
			})})
			asked := s.post(`{"id":"c1","agent":"worker","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"go"}]}]}`)
			page := &uiMessage{}
			page.read(t, &asked)
			step := page.lastStep()
			if len(step) != 1 || step[0].State != stateAsked || step[0].Tool != "deploy" {
				b, _ := json.Marshal(page.Parts)
				t.Fatalf("%s: the last step of %s", name, b)
			}
			approval := step[0].Approval.ID
			part := fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":%q,"state":%q,"input":{},"approval":{"id":%q,"approved":%t}}`, step[0].Call, stateResponded, approval, approve)
			rest := s.answer("c1", asked.id(t), `{"type":"tool-clipboard","toolCallId":"a","state":"output-available","input":{},"output":1},{"type":"step-start"},`+part)
			page.read(t, &rest)
			state := stateDenied
			if approve {
				state = stateOutput
			}
			for _, p := range page.Parts {
				if p.Tool == "deploy" && p.State != state {
					t.Errorf("%s, %t: the call %s is %s", name, approve, p.Call, p.State)
				}
			}
			if rest.finish(t) != finishStop || page.sends() {
				t.Errorf("%s: the page sends its answer again: %v", name, rest.chunks)
			}
		}
	}
}

// read folds a response into a message.
func (m *uiMessage) read(t *testing.T, r *response) {
	t.Helper()
	for _, raw := range r.chunks {
		var c chunk
		b, err := json.Marshal(raw)
		if err == nil {
			err = json.Unmarshal(b, &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.add(c)
	}
}

// A page that comes while two questions are open has both, and the text between them once, also when it answers the first one alone.
func TestQuestionsInTwoSteps(t *testing.T) {
	s := newTestServer(t, map[string]agent.Agent{"asker": agentFunc(func(ctx context.Context, turn *agent.Turn) error {
		stored, err := turn.AppendAll(ctx,
			chat.AgentToolCall{CallID: "a", Tool: "read"}, chat.AgentInputRequest{InputType: chat.InputText, Text: "one"}, chat.AgentToolResult{CallID: "a", Result: []byte("1")},
			chat.AgentText{Text: "between"}, chat.AgentInputRequest{InputType: chat.InputText, Text: "two"}, chat.AgentToolCall{CallID: "c", Tool: "read"}, chat.AgentText{Text: "behind"})
		if err != nil {
			return err
		}
		for _, e := range stored {
			if b, ok := e.Body.(chat.AgentInputRequest); ok {
				if _, err := turn.Answer(ctx, b.RequestID); err != nil {
					return err
				}
			}
		}
		return turn.Say(ctx, "end")
	})})
	part := func(id, state string) string {
		return fmt.Sprintf(`{"type":"tool-ask_person","toolCallId":%q,"state":%q,"input":{},"output":"x"}`, id, state)
	}
	for _, id := range []chat.SessionID{"c1", "c2"} {
		live := s.post(fmt.Sprintf(`{"id":%q,"agent":"asker","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"go"}]}]}`, id))
		if live.words() != "" || live.finish(t) != finishTools {
			t.Errorf("%v", live.chunks)
		}
		s.Until(id, "agent.text", 2)
		loaded := s.get("/api/chat/" + string(id) + "/stream")
		if loaded.words() != "between" || loaded.finish(t) != finishTools {
			t.Fatalf("%v", loaded.chunks)
		}
		var questions []string
		for _, c := range loaded.chunks {
			if c["type"] == chunkToolInput && c["toolName"] == toolAsk {
				questions = append(questions, c["toolCallId"].(string))
			}
		}
		answer := func(one, two string) response {
			return s.answer(string(id), loaded.id(t), part(questions[0], one)+`,{"type":"step-start"},`+part(questions[1], two))
		}
		if id == "c1" {
			if got := answer(stateOutput, stateInput); got.words() != "" || got.finish(t) != finishTools {
				t.Errorf("the first one alone: %v", got.chunks)
			}
		} else if got := answer(stateInput, stateOutput); got.status != http.StatusConflict || !strings.Contains(got.text, "earlier question") {
			t.Errorf("the second one alone, of which the page would be complete: %d %s %v", got.status, got.text, got.chunks)
		}
		if rest := answer(stateOutput, stateOutput); rest.words() != "behindend" || rest.finish(t) != finishStop {
			t.Errorf("%v", rest.chunks)
		}
	}
}
