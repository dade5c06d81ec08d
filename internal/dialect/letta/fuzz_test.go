package letta

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
)

// Every body is refused with a reason, or becomes valid drafts.
func FuzzSend(f *testing.F) {
	for _, s := range []string{
		`{"input":"x"}`, `{"messages":[{"role":"user","content":"x","otid":"o","sender_id":"identity-1","group_id":"g","name":"n"}]}`,
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"url","url":"data:image/png;base64,AA=="}}]}],"streaming":true,"stream_tokens":true}`,
		`{"messages":[{"type":"approval","approvals":[{"tool_call_id":"c","approve":true}]},{"role":"user","content":"and"}]}`,
		`{"messages":[{"approve":false,"approval_request_id":"r","reason":"no"}]}`,
		`{"messages":[{"type":"tool_return","tool_returns":[{"tool_call_id":"c","tool_return":"x","status":"success"}]}]}`,
		`{"input":[{"type":"text","text":"x"}],"client_tools":[{"name":"t"}],"max_steps":3,"include_return_message_types":["user_message"]}`,
		`{}`, `[]`, `{"messages":null,"input":null}`, `{"messages":[null]}`, `{"input":[{"type":"image","source":null}]}`, `{"input":[null]}`,
	} {
		f.Add([]byte(s))
	}
	q := &request{Dialect: New(Options{Agents: func(string) []string { return []string{"demo"} }}), ctx: f.Context(), caller: owner}
	f.Fuzz(func(t *testing.T, b []byte) {
		var body sendBody
		if err := edge.Decode(b, &body); err != nil {
			if chat.CodeOf(err) != chat.Invalid {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		a, err := body.request(true)
		if err != nil {
			if code := chat.CodeOf(err); code != chat.Invalid {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		if len(a.messages) == 0 && a.approval == nil {
			t.Fatalf("%q: nothing is sent", b)
		}
		if a.approval != nil {
			pending := &chat.Prompt{RequestID: "r", Approval: &chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "c", Tool: "t"}}}}
			if _, err := a.approval.decisions(pending, "message-1"); err != nil && chat.CodeOf(err) != chat.Invalid {
				t.Fatalf("%q: %v", b, err)
			}
		}
		if len(a.messages) == 0 || q.checkSend(&conversation{answerer: "demo"}, a) != nil {
			return
		}
		drafts, err := q.drafts(&conversation{}, a)
		if err != nil {
			if chat.CodeOf(err) == chat.Internal {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		for i := range drafts {
			if err := drafts[i].Normalize(); err != nil && chat.CodeOf(err) == chat.Internal {
				t.Fatalf("%q: %v", b, err)
			}
			if !json.Valid(drafts[i].Payload) {
				t.Fatalf("%q: draft %d is %s", b, i, drafts[i].Payload)
			}
		}
	})
}

// Every body of a resume request is accepted or refused with a reason.
func FuzzResume(f *testing.F) {
	for _, s := range []string{`{}`, ``, `{"starting_after":5,"include_pings":false}`, `{"starting_after":-1}`, `{"starting_after":1e99}`, `{"run_id":"x","otid":"y"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var body resumeBody
		err := edge.Decode(b, &body)
		if err == nil {
			err = body.check()
		}
		if err != nil && chat.CodeOf(err) != chat.Invalid {
			t.Fatalf("%q: %v", b, err)
		}
	})
}
