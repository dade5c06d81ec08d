package agui

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

// FuzzInput: no body of a run makes the decoder panic, and a message that it accepts can be stored.
func FuzzInput(f *testing.F) {
	f.Add([]byte(body("th", "r1", "u1 hello")))
	f.Add([]byte(resumed("th", "r1", answerEntry("p-1/c1", `{"approved":true,"editedArgs":{}}`), `{"id":"t","role":"tool","toolCallId":"c","content":[{"type":"text","text":"x"}]}`)))
	f.Add([]byte(body("th", "r1", `{"id":"u","role":"user","content":[{"type":"image","source":{"type":"data","value":"aGk=","mimeType":"image/png"}},{"type":"binary","url":"data:a;base64,aGk="}]}`)))
	f.Add([]byte(`{"threadId":"t","messages":[null,{"role":"user","content":null}],"tools":[{}],"context":[{}],"resume":[{}]}`))
	prompts := []*chat.Prompt{
		{RequestID: "p-1", Approval: &chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "c1"}, {CallID: "c", Client: true}}}},
		{RequestID: "p-2", Input: &chat.AgentInputRequest{InputType: chat.InputBinary, Options: []chat.Option{{ID: "a"}, {ID: "b"}}}},
		{RequestID: "p-3", Permission: &chat.AgentPermissionRequest{Scopes: []string{"x"}}},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := decodeInput(b)
		if err != nil {
			return
		}
		user, results := in.additions()
		if user != nil {
			_, _ = userBody(user) // both may be refused, with a reason
			_, _ = in.messageContext()
		}
		entries := map[string]resumeEntry{}
		for _, e := range in.Resume {
			entries[e.ID] = e
		}
		for _, p := range prompts {
			if a, ok, err := answerTo(p, entries, results); ok && err == nil {
				_, _ = a.Body(p) // it may be refused, with a reason
			}
		}
		in.upToUser()
	})
}
