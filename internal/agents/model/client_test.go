package model_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/modeltest"
)

// A tool that is sent with a message is offered to the model, and the client that sent
// it runs it. The operator's rules do not apply to it, and an operator's tool with the
// same name takes precedence.
func TestToolsOfTheClient(t *testing.T) {
	for name, c := range map[string]struct {
		decision chat.Decision
		want     []string
	}{
		"result":  {chat.Decision{Approve: true, Result: []byte(`"from the client"`)}, []string{`call clipboard {"n":2}`, `result clipboard "from the client"`, `from the client`, "turn done"}},
		"failed":  {chat.Decision{Approve: true, Error: "no clipboard"}, []string{`call clipboard {"n":2}`, "error clipboard", "no clipboard", "turn done"}},
		"refused": {chat.Decision{Reason: "not now"}, []string{"user.approval_response", "not now", "turn done"}},
	} {
		t.Run(name, func(t *testing.T) {
			var count counter
			var mu sync.Mutex
			var offered []string
			opt := model.Options{Tools: []tool.Tool{count.tool("safe", true)}, Rules: []tool.Rule{{Match: "*", Approval: tool.Never}}}
			script := callThenSay(modeltest.Call{Name: "safe", Args: `{"n":1}`}, modeltest.Call{Name: "clipboard", Args: `{"n":2}`})
			w := newServer(t, opt, func(r modeltest.Request) modeltest.Reply {
				mu.Lock()
				defer mu.Unlock()
				offered = r.Tools
				return script(r)
			})
			if _, _, err := w.Create(w.ctx(), ann, chat.NewSession{ID: "s-1"}); err != nil {
				t.Fatal(err)
			}
			message := chat.UserMessage{Text: "go", Context: []byte(`{"client_tools":[{"name":"clipboard","description":"Reads it","parameters":{"type":"object"}},{"name":"safe"}]}`)}
			if _, err := w.Append(w.ctx(), ann, "s-1", []chat.Draft{chat.NewDraft(message)}); err != nil {
				t.Fatal(err)
			}
			request := w.prompt("s-1", 1)
			mu.Lock()
			if !slices.Equal(offered, []string{"safe", "clipboard"}) {
				t.Errorf("offered: %v", offered)
			}
			mu.Unlock()
			d := c.decision
			for _, e := range w.log("s-1") {
				if b, ok := e.Body.(chat.AgentApprovalRequest); ok {
					if d.CallID = b.Calls[0].CallID; len(b.Calls) != 1 || b.Calls[0].Tool != "clipboard" || !b.Calls[0].Client {
						t.Errorf("asked: %+v", b.Calls)
					}
				}
			}
			w.answer("s-1", request, chat.Answer{Decisions: []chat.Decision{d}})
			w.ended("s-1", 1)
			w.has("s-1", c.want[len(c.want)-1])
			if name != "refused" {
				w.has("s-1", c.want...)
			}
			for _, e := range w.log("s-1") {
				if b, ok := e.Body.(chat.AgentToolError); ok && name == "failed" && (b.Error != "no clipboard" || b.Code != "") {
					t.Errorf("the client's words are %q with the code %q", b.Error, b.Code)
				}
			}
			fold := llm.NewFold(llm.Options{})
			for _, e := range w.log("s-1") {
				fold.Apply(&e)
			}
			for _, m := range fold.Messages() {
				for _, r := range m.ToolReturns {
					if message, _, _ := llm.UnpackResult(r.Text); r.Status == llm.Failure && name == "failed" && string(message) != `"no clipboard"` {
						t.Errorf("the row says %s", message)
					}
				}
			}
			if count.runs[`safe{"n":1}`] != 1 {
				t.Errorf("the operator's own tool: %v", count.runs)
			}
		})
	}
}
