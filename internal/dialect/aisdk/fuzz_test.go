package aisdk

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
)

// What a page sends is decoded to a message or to answers that fit their prompts, or it is refused.
func FuzzDecodeSend(f *testing.F) {
	f.Add([]byte(userMessage("c1", "m1", "hello")))
	f.Add([]byte(`{"id":"c","messages":[{"id":"t","role":"assistant","parts":[{"type":"tool-x","toolCallId":"k","state":"output-available","output":1,"approval":{"id":"p/k","approved":true}}]}],"tools":{"a":{}}}`))
	f.Add([]byte(`{"message":{"id":"m","role":"user","parts":[{"type":"file","url":"data:image/png;base64,QUJD","mediaType":"image/png"}]}}`))
	prompts := []chat.Prompt{
		{RequestID: "p", Approval: &chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "k", Tool: "x"}, {CallID: "c", Tool: "y", Client: true}}}},
		{RequestID: "p", Input: &chat.AgentInputRequest{InputType: chat.InputText}},
		{RequestID: "p", Permission: &chat.AgentPermissionRequest{Scopes: []string{"s"}}},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if edge.CheckJSON(b) != nil {
			return
		}
		req, err := decodeSend(b)
		if err != nil {
			return
		}
		if body, err := req.message.body(); err == nil {
			d := chat.NewDraft(body)
			if err := d.Normalize(); err == nil && !json.Valid(d.Payload) {
				t.Errorf("%s", d.Payload)
			}
		}
		given := req.message.answers()
		for i := range prompts {
			if a, err := given.to(&prompts[i]); err == nil {
				if !given.mentions(&prompts[i]) {
					t.Errorf("an answer to a prompt that the page does not mention: %+v", a)
				}
				_, _ = a.Body(&prompts[i])
			}
		}
	})
}
