package chat

import (
	"reflect"
	"strings"
	"testing"
)

func input(kind InputType, change func(*AgentInputRequest)) *Prompt {
	in := AgentInputRequest{RequestID: "r", InputType: kind, Text: "?"}
	switch kind {
	case InputBinary:
		in.Options = []Option{{ID: "y", Label: "Yes", Value: "continue"}, {ID: "n", Label: "No", Value: "cancel"}}
	case InputRadio, InputCheckbox, InputDropdown:
		in.Options = []Option{{ID: "a", Label: "Apple", Value: "apple"}, {ID: "b", Label: "Bread"}, {ID: "c", Label: "Corn, sweet"}}
	}
	if change != nil {
		change(&in)
	}
	return &Prompt{RequestID: "r", Input: &in}
}

func optional(in *AgentInputRequest) { in.Required = new(false) }

func TestInputAnswersAreChecked(t *testing.T) {
	some := func(in *AgentInputRequest) { in.Min, in.Max = 2, 2 }
	for _, c := range []struct {
		name   string
		prompt *Prompt
		answer Answer
		text   string
		values string // joined by |
		refuse string // part of the message
	}{
		{"text", input(InputText, nil), Answer{Text: " hi "}, " hi ", "", ""},
		{"text as a value", input(InputText, nil), Answer{Values: []string{"hi"}}, "hi", "", ""},
		{"text, nothing", input(InputText, nil), Answer{}, "", "", "required"},
		{"text, spaces", input(InputText, nil), Answer{Text: " \n"}, "", "", "required"},
		{"text, optional", input(InputText, optional), Answer{}, "", "", ""},
		{"consent", input(InputOAuth, nil), Answer{}, "", "", ""},
		{"binary by value", input(InputBinary, nil), Answer{Values: []string{"cancel"}}, "", "cancel", ""},
		{"binary by id", input(InputBinary, nil), Answer{Values: []string{"y"}}, "", "continue", ""},
		{"binary by label in the text", input(InputBinary, nil), Answer{Text: "No"}, "", "cancel", ""},
		{"binary, both", input(InputBinary, nil), Answer{Values: []string{"y", "n"}}, "", "", "choose one"},
		{"binary, neither", input(InputBinary, nil), Answer{Text: "maybe"}, "", "", `"maybe" is not one of the options: continue, cancel`},
		{"radio, option without a value", input(InputRadio, nil), Answer{Values: []string{"Bread"}}, "", "b", ""},
		{"radio, nothing", input(InputRadio, nil), Answer{}, "", "", "required"},
		{"radio, optional", input(InputRadio, optional), Answer{}, "", "", ""},
		{"radio, the same twice", input(InputRadio, nil), Answer{Values: []string{"a", "apple"}}, "", "apple", ""},
		{"radio, label with a comma", input(InputRadio, nil), Answer{Text: "Corn, sweet"}, "", "c", ""},
		{"dropdown", input(InputDropdown, nil), Answer{Values: []string{"c"}}, "", "c", ""},
		{"dropdown, in another case", input(InputDropdown, nil), Answer{Values: []string{"APPLE"}}, "", "", "not one of"},
		{"checkbox", input(InputCheckbox, nil), Answer{Values: []string{"b", "a"}}, "", "b|apple", ""},
		{"checkbox, JSON in the text", input(InputCheckbox, nil), Answer{Text: `["a","b"]`}, "", "apple|b", ""},
		{"checkbox, commas in the text", input(InputCheckbox, nil), Answer{Text: "a, Bread ,"}, "", "apple|b", ""},
		{"checkbox, one option with a comma", input(InputCheckbox, nil), Answer{Text: "Corn, sweet"}, "", "c", ""},
		{"checkbox, nothing", input(InputCheckbox, nil), Answer{}, "", "", "at least 1"},
		{"checkbox, optional", input(InputCheckbox, optional), Answer{Values: []string{}}, "", "", ""},
		{"checkbox, too few", input(InputCheckbox, some), Answer{Values: []string{"a", "apple"}}, "", "", "at least 2"},
		{"checkbox, too many", input(InputCheckbox, some), Answer{Values: []string{"a", "b", "c"}}, "", "", "at most 2"},
		{"decisions for an input", input(InputText, nil), Answer{Decisions: []Decision{{}}}, "", "", "required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := c.answer.Body(c.prompt)
			if c.refuse != "" {
				if CodeOf(err) != Invalid || !strings.Contains(err.Error(), c.refuse) {
					t.Fatalf("%v, %v; want a refusal with %q", body, err, c.refuse)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := body.(UserInputResponse)
			if got.RequestID != "r" || got.Text != c.text || strings.Join(got.Values, "|") != c.values {
				t.Fatalf("%+v", got)
			}
			// An accepted answer is accepted again without a change.
			again, err := c.prompt.Accept(got)
			if err != nil || !reflect.DeepEqual(again, body) {
				t.Fatalf("again: %+v, %v", again, err)
			}
		})
	}
}

func TestApprovalAnswersAreChecked(t *testing.T) {
	two := &Prompt{RequestID: "r", Approval: &AgentApprovalRequest{Calls: []ApprovalCall{{CallID: "c1", Tool: "a"}, {CallID: "c2", Tool: "b"}}}}
	one := &Prompt{RequestID: "r", Approval: &AgentApprovalRequest{Calls: []ApprovalCall{{CallID: "c1", Tool: "a"}}}}
	for _, c := range []struct {
		name      string
		prompt    *Prompt
		decisions []Decision
		refuse    string
	}{
		{"both, in another order", two, []Decision{{CallID: "c2", Reason: "no"}, {CallID: "c1", Approve: true, Remember: "session", Params: raw(`{}`)}}, ""},
		{"one without its id", one, []Decision{{Approve: true}}, ""},
		{"arguments that are no object", one, []Decision{{Approve: true, Params: raw(`"{}"`)}}, "a JSON object"},
		{"null for unchanged arguments", one, []Decision{{Approve: true, Params: raw(`null`)}}, ""},
		{"nothing", one, nil, "decisions"},
		{"empty", one, []Decision{}, "not decided"},
		{"one of two", two, []Decision{{CallID: "c1"}}, `"c2" is not decided`},
		{"twice", two, []Decision{{CallID: "c1"}, {CallID: "c1"}}, "twice"},
		{"another call", one, []Decision{{CallID: "c1"}, {CallID: "c9"}}, "not part"},
		{"unknown value of remember", one, []Decision{{CallID: "c1", Remember: "always"}}, "remember"},
	} {
		body, err := Answer{Decisions: c.decisions}.Body(c.prompt)
		if c.refuse != "" {
			if CodeOf(err) != Invalid || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%s: %v, %v", c.name, body, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(c.name, err)
		}
		for i, d := range body.(UserApprovalResponse).Decisions {
			if d.CallID != c.prompt.Approval.Calls[i].CallID || string(d.Params) == "null" {
				t.Errorf("%s: %+v", c.name, body)
			}
		}
	}
}

func TestPermissionAnswersAreChecked(t *testing.T) {
	p := &Prompt{RequestID: "r", Permission: &AgentPermissionRequest{Scopes: []string{"read", "write"}}}
	for _, c := range []struct {
		name            string
		answer          Answer
		granted, denied string
		refuse          string
	}{
		{"all", Answer{Granted: &[]string{"write", "read"}, Duration: "always"}, "read|write", "", ""},
		{"some", Answer{Granted: &[]string{"read"}}, "read", "write", ""},
		{"none", Answer{Granted: &[]string{}}, "", "read|write", ""},
		{"denied takes precedence", Answer{Granted: &[]string{"read", "write"}, Denied: []string{"write"}}, "read", "write", ""},
		{"without granted", Answer{Text: "yes"}, "", "", "granted"},
		{"more than asked", Answer{Granted: &[]string{"admin"}}, "", "", `"admin" was not asked for`},
		{"denied more than asked", Answer{Granted: &[]string{}, Denied: []string{"admin"}}, "", "", "not asked for"},
		{"unknown duration", Answer{Granted: &[]string{}, Duration: "a while"}, "", "", "duration"},
	} {
		body, err := c.answer.Body(p)
		if c.refuse != "" {
			if CodeOf(err) != Invalid || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%s: %v, %v", c.name, body, err)
			}
			continue
		}
		got, _ := body.(UserPermissionResponse)
		if err != nil || strings.Join(got.Granted, "|") != c.granted || strings.Join(got.Denied, "|") != c.denied || got.Granted == nil {
			t.Errorf("%s: %+v, %v", c.name, body, err)
		}
	}
}

func TestAnswersOfAnotherKindAreRefused(t *testing.T) {
	prompts := []*Prompt{
		input(InputText, nil),
		{RequestID: "r", Approval: &AgentApprovalRequest{Calls: []ApprovalCall{{CallID: "c", Tool: "t"}}}},
		{RequestID: "r", Permission: &AgentPermissionRequest{Scopes: []string{"s"}}},
	}
	bodies := []Body{
		UserInputResponse{RequestID: "r", Text: "a"},
		UserApprovalResponse{RequestID: "r", Decisions: []Decision{{CallID: "c"}}},
		UserPermissionResponse{RequestID: "r"},
		UserMessage{Text: "a"},
	}
	for i, p := range prompts {
		for j, b := range bodies {
			if _, err := p.Accept(b); (err == nil) != (i == j) || err != nil && CodeOf(err) != Invalid {
				t.Errorf("%s to %s: %v", b.Type(), p.kind(), err)
			}
		}
	}
	for _, b := range append(bodies[:3], PromptClosed{RequestID: "r"}) {
		if AnswerOf(b) != "r" {
			t.Errorf("%s answers %q", b.Type(), AnswerOf(b))
		}
	}
	if AnswerOf(UserMessage{}) != "" {
		t.Error("a message answers nothing")
	}
}

func TestAsPromptFindsRequests(t *testing.T) {
	s := newScript(t)
	s.answering("x")
	s.on("", AgentInputRequest{RequestID: "q1", InputType: InputText, Text: "?", Deadline: 99})
	s.on("", AgentInputRequest{RequestID: "q2", InputType: InputNotification, Text: "!"})
	s.on("", AgentText{Text: "a"})
	events := s.events()
	p, ok := AsPrompt(&events[3])
	if !ok || p.RequestID != "q1" || p.Seq != 4 || p.Deadline != 99 || p.Turn == "" || p.AskedAt != events[3].At {
		t.Errorf("%+v %v", p, ok)
	}
	for _, e := range events[4:] {
		if _, ok := AsPrompt(&e); ok {
			t.Errorf("%s opens a prompt", e.Type)
		}
	}
}
