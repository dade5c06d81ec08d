package letta

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

const clipboard = `,"client_tools":[{"name":"clipboard","description":"Reads the clipboard","parameters":{"type":"object","properties":{}}}]`

// requestClientTool makes the agent call a tool of the client and returns the call's id.
func requestClientTool(w *testServer, a string) string {
	w.t.Helper()
	r := get[answer](w, "POST", "/v1/agents/"+a+"/messages", message(`/tool clipboard {"n":1}`, clipboard))
	last := r.Messages[len(r.Messages)-1]
	if r.Stop.Reason != stream.StopApproval || last.Type != stream.KindApprovalRequest || last.Call.Name != "clipboard" {
		w.t.Fatalf("%+v", r)
	}
	return last.Call.ID
}

// A run stops at the call of a client's tool and goes on with the result that the client sends.
func TestClientTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ send, says, status, shown string }{
		"tool_return":  {`{"type":"tool_return","tool_returns":[{"type":"tool","tool_call_id":"ID","tool_return":"copied","status":"success"}]}`, `clipboard gave "copied"`, "success", "copied"},
		"approval":     {`{"type":"approval","approvals":[{"type":"tool","tool_call_id":"ID","tool_return":"copied","status":"success"}]}`, `clipboard gave "copied"`, "success", "copied"},
		"parts":        {`{"type":"tool_return","tool_returns":[{"tool_call_id":"ID","tool_return":[{"type":"text","text":"copied"}],"status":"success"}]}`, `clipboard gave [{"type":"text","text":"copied"`, "success", "copied"},
		"only printed": {`{"type":"tool_return","tool_returns":[{"tool_call_id":"ID","stdout":["copied"],"status":"success"}]}`, `clipboard gave "copied"`, "success", "copied"},
		"failed":       {`{"type":"tool_return","tool_returns":[{"tool_call_id":"ID","tool_return":"it is locked","status":"error"}]}`, "clipboard failed: it is locked", "error", "it is locked"},
		"denied":       {`{"type":"approval","approvals":[{"type":"approval","tool_call_id":"ID","approve":false,"reason":"private"}]}`, "Denied: private", "error", "private"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestServer(t, setup{})
			a := w.agent("")
			id := requestClientTool(w, a)
			w = w.restart() // it waits in the log
			got := get[answer](w, "POST", "/v1/agents/"+a+"/messages", `{"messages":[`+strings.ReplaceAll(c.send, "ID", id)+`]}`)
			if !strings.HasPrefix(got.text(), c.says) || got.Messages[0].Type != stream.KindToolReturn || got.Messages[0].Status != c.status || !strings.Contains(got.Messages[0].Return, c.shown) {
				t.Fatalf("%+v", got)
			}
			// The list tells what the client said, and validates as all messages do.
			found := ""
			for _, m := range get[[]object](w, "GET", "/v1/agents/"+a+"/messages?order=asc", "") {
				if m["message_type"] == stream.KindApprovalResponse {
					found = fmt.Sprint(m["approvals"])
				}
			}
			if !strings.Contains(found, c.shown) {
				t.Errorf("listed: %s", found)
			}
			if again := w.say(a, "hello"); again.text() != "You said: hello" {
				t.Errorf("%+v", again)
			}
		})
	}
}

func TestWrongClientToolsAreRefused(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	path := "/v1/agents/" + a + "/messages"
	for _, tools := range []string{`5`, `[5]`, `[{}]`, `[{"name":"x","parameters":[]}]`} {
		if code, body := w.do("POST", path, message("x", `,"client_tools":`+tools)); code != http.StatusUnprocessableEntity || !strings.Contains(detailOf(body), "client_tools") {
			t.Errorf("%s: %d %s", tools, code, body)
		}
	}
	id := requestClientTool(w, a)
	for body, want := range map[string]int{
		`{"type":"tool_return","tool_returns":[{"tool_call_id":"other","tool_return":"x","status":"success"}]}`:                                                               400,
		`{"type":"tool_return","tool_returns":[{"tool_call_id":"` + id + `","tool_return":"x"}]}`:                                                                             422,
		`{"type":"tool_return","tool_returns":[{"tool_call_id":"` + id + `","tool_return":{"a":1},"status":"success"}]}`:                                                      422,
		`{"type":"tool_return","tool_returns":[]}`:                                                                                                                            422,
		`{"type":"tool_return","tool_returns":[{"tool_call_id":"` + id + `","tool_return":[{"type":"image","source":{"type":"url","url":"file:///x"}}],"status":"success"}]}`: 400,
	} {
		if code, answer := w.do("POST", path, `{"messages":[`+body+`]}`); code != want {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	// Nothing of that has decided anything.
	done := `{"messages":[{"type":"tool_return","tool_returns":[{"tool_call_id":"` + id + `","tool_return":"x","status":"success"}]}]}`
	if got := get[answer](w, "POST", path, done); got.text() != `clipboard gave "x"` {
		t.Errorf("%+v", got)
	}
	if code, body := w.do("POST", path, done); code != http.StatusBadRequest || !strings.Contains(detailOf(body), "answered by") {
		t.Errorf("twice: %d %s", code, body)
	}
	if code, body := w.do("POST", path, done, "X-Stainless-Retry-Count", "1"); code != http.StatusOK || !strings.Contains(body, "clipboard gave") {
		t.Errorf("the client's own retry: %d %s", code, body)
	}
}

// override_system is stored where agents read it.
func TestOverrideSystem(t *testing.T) {
	t.Parallel()
	var system []string
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"demo": agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		said := turn.Trigger.Body.(chat.UserMessage)
		system = append(system, said.System())
		return turn.Say(ctx, "Oui.")
	})}})
	a := w.agent("")
	for _, more := range []string{`,"override_system":"Speak French."`, `,"system":"Speak Greek."`, ""} {
		get[answer](w, "POST", "/v1/agents/"+a+"/messages", message("hi", more))
	}
	if want := []string{"Speak French.", "Speak Greek.", ""}; !slices.Equal(system, want) {
		t.Errorf("the agent gets %q", system)
	}
}
