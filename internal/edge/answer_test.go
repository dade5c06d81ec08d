package edge

import (
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

func TestAnswersOfPagesHaveSeveralForms(t *testing.T) {
	options := []chat.Option{{Value: "yes"}, {Value: "no"}}
	for _, c := range []struct {
		kind chat.InputType
		raw  string
		want chat.Answer
	}{
		{chat.InputText, `"blue"`, chat.Answer{Text: "blue"}},
		{chat.InputText, `{"text":"blue"}`, chat.Answer{Text: "blue"}},
		{chat.InputText, `["blue","red"]`, chat.Answer{Text: "blue, red"}},
		{chat.InputText, `7`, chat.Answer{Text: "7"}},
		{chat.InputText, `[1,"red"]`, chat.Answer{Text: `[1,"red"]`}},
		{chat.InputText, `null`, chat.Answer{}},
		{chat.InputText, `{"other":"blue"}`, chat.Answer{}},
		{chat.InputCheckbox, `{"values":["a","b"]}`, chat.Answer{Values: []string{"a", "b"}}},
		{chat.InputBinary, `{"value":false}`, chat.Answer{Values: []string{"no"}}},
		{chat.InputBinary, `true`, chat.Answer{Values: []string{"yes"}}},
	} {
		got, _ := json.Marshal(InputAnswer(&chat.AgentInputRequest{InputType: c.kind, Options: options}, json.RawMessage(c.raw)))
		want, _ := json.Marshal(c.want)
		if string(got) != string(want) {
			t.Errorf("%s %s: got %s, want %s", c.kind, c.raw, got, want)
		}
	}
}

// The rules give a binary choice two options, but an imported log may have others.
func TestAnswerToABinaryChoiceWithoutOptions(t *testing.T) {
	if a := InputAnswer(&chat.AgentInputRequest{InputType: chat.InputBinary}, json.RawMessage(`true`)); a.Text != "true" || a.Values != nil {
		t.Errorf("%+v", a)
	}
}

func TestConsentOfPagesHasSeveralForms(t *testing.T) {
	yes, no := true, false
	for raw, want := range map[string]consentBody{
		`true`:                                   {Approved: &yes},
		`{"approved":false,"reason":"too late"}`: {Approved: &no, Reason: "too late"},
		`["files.read"]`:                         {Granted: &[]string{"files.read"}},
		`{"granted":["a"],"duration":"session"}`: {Granted: &[]string{"a"}, Duration: "session"},
		`"yes"`:                                  {},
		`null`:                                   {},
		`{"approved":null,"granted":null}`:       {},
		`{"approved":"yes"}`:                     {},
		`{"approved":true,"editedArgs":{"city":1}}`: {Approved: &yes, Edited: json.RawMessage(`{"city":1}`)},
	} {
		got, _ := json.Marshal(ReadConsent(json.RawMessage(raw)))
		expected, _ := json.Marshal(want)
		if string(got) != string(expected) {
			t.Errorf("%s: got %s, want %s", raw, got, expected)
		}
	}
}
