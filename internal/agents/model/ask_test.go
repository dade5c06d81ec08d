package model_test

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// A model can open every kind of prompt and receives the answer.
func TestEveryKindOfQuestion(t *testing.T) {
	tools, err := tool.Builtin("ask_user")
	if err != nil {
		t.Fatal(err)
	}
	const options = `"options":[{"value":"a","label":"A"},{"value":"b","label":"B"}]`
	for kind, c := range map[chat.InputType]struct {
		args   string
		answer *chat.Answer // nil if the tool does not wait for an answer
		result string
	}{
		chat.InputText:         {`"placeholder":"a word"`, &chat.Answer{Text: "Bern"}, `"text":"Bern"`},
		chat.InputBinary:       {options, &chat.Answer{Values: []string{"b"}}, `"values":["b"]`},
		chat.InputRadio:        {options, &chat.Answer{Values: []string{"a"}}, `"values":["a"]`},
		chat.InputDropdown:     {options, &chat.Answer{Values: []string{"a"}}, `"values":["a"]`},
		chat.InputCheckbox:     {options + `,"min":1,"max":2`, &chat.Answer{Values: []string{"a", "b"}}, `"values":["a","b"]`},
		chat.InputNotification: {`"required":false`, nil, `"shown":true`},
		chat.InputOAuth:        {`"url":"https://example.com/consent"`, &chat.Answer{}, `"answered":true`},
	} {
		t.Run(string(kind), func(t *testing.T) {
			w := newServer(t, model.Options{Tools: tools}, callThenSay(modeltest.Call{Name: "ask_user", Args: `{"question":"Well?","input_type":"` + string(kind) + `",` + c.args + `}`}))
			w.say("s-1", "go")
			request := w.prompt("s-1", 1)
			for _, e := range w.log("s-1") {
				if b, ok := e.Body.(chat.AgentInputRequest); ok && (b.InputType != kind || b.Text != "Well?") {
					t.Errorf("asked %s", e.Payload)
				}
			}
			if c.answer != nil {
				w.answer("s-1", request, *c.answer)
			}
			if end := w.ended("s-1", 1); end.Outcome != chat.Done || !strings.Contains(w.text("s-1"), c.result) {
				t.Errorf("no %s in\n%s", c.result, w.text("s-1"))
			}
		})
	}
}

// A call without required texts shows nothing to people; the model gets an error that
// names the missing argument.
func TestBuiltinToolsWantTheirWords(t *testing.T) {
	tools, err := tool.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ args, says string }{
		"ask_user":           {`{"text":"Well?"}`, "question is missing"},
		"update_plan":        {`{"tasks":[{"title":"One","status":"done"},{"status":"pending"}]}`, "tasks[1] has no title"},
		"request_permission": {`{"scopes":[],"justification":"why not"}`, "scopes is missing"},
		"publish_artifact":   {`{"title":"Report"}`, "content is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServer(t, model.Options{Tools: tools}, callThenSay(modeltest.Call{Name: name, Args: c.args}))
			w.say("s-1", "go")
			if end := w.ended("s-1", 1); end.Outcome != chat.Done {
				t.Errorf("the turn ended as %s", end.Outcome)
			}
			w.has("s-1", "error "+name+" invalid_arguments: "+c.says, "turn done")
		})
	}
}
