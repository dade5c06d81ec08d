package letta

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// askingAgent asks for approval of two calls and reports its usage in the same commit; then it writes the decisions.
type askingAgent struct{}

func (askingAgent) Answer(ctx context.Context, t *agent.Turn) error {
	cost := func(in int64) chat.AgentUsage {
		return chat.AgentUsage{Model: "m", Usage: chat.Usage{InputTokens: in, OutputTokens: 1}}
	}
	asked, err := t.AppendAll(ctx,
		chat.AgentText{Text: "May I? "},
		chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{
			{CallID: "one", Tool: "deploy", Params: json.RawMessage(`{}`)}, {CallID: "two", Tool: "delete", Params: json.RawMessage(`{}`)},
		}},
		chat.AgentError{Message: "that was long", Recoverable: true},
		cost(100))
	if err != nil {
		return err
	}
	answer, err := t.Answer(ctx, asked[1].Body.(chat.AgentApprovalRequest).RequestID)
	if err != nil {
		return err
	}
	text := ""
	for _, d := range answer.(chat.UserApprovalResponse).Decisions {
		text += fmt.Sprint(d.CallID, " ", d.Approve, " ", d.Reason, "; ")
	}
	_, err = t.AppendAll(ctx, chat.AgentText{Text: text, Final: true}, cost(1000))
	return err
}

// The usage of the step that asks is in the response with the question, and not in the next one.
func TestUsageOfAQuestionIsReportedWithIt(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"asker": askingAgent{}}})
	type awaitCallback struct {
		answer
		Usage struct {
			Prompt int64 `json:"prompt_tokens"`
			Steps  int   `json:"step_count"`
		}
	}
	const decide = `{"type":"approval","approvals":[{"type":"approval","tool_call_id":"two","approve":false,"reason":"no"},{"type":"approval","tool_call_id":"one","approve":true}]}`
	a := w.agent(`{"model":"parley/asker"}`)
	path := "/v1/agents/" + a + "/messages"
	asked := get[awaitCallback](w, "POST", path, message("go", ""))
	if asked.Stop.Reason != stream.StopApproval || asked.Usage.Prompt != 100 || asked.Usage.Steps != 1 {
		t.Errorf("asks: %+v", asked)
	}
	run := "/v1/runs/" + asked.Messages[0].Run
	resumed := 0
	for _, m := range w.open(run+"/stream", `{}`).rest() {
		resumed += m.Prompt
	}
	if resumed != 100 {
		t.Errorf("the question again: %d", resumed)
	}
	w = w.restart()
	goesOn := get[awaitCallback](w, "POST", path, `{"messages":[`+decide+`]}`)
	if goesOn.Usage.Prompt != 1000 || goesOn.text() != "one true ; two false no; " {
		t.Errorf("goes on: %+v", goesOn)
	}
	if all := get[object](w, "GET", run+"/usage", ""); all["prompt_tokens"] != 1100.0 {
		t.Errorf("in all: %v", all)
	}
}
