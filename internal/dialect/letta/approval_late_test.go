package letta

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// A late answer is refused with the outcome of the request, for every sender, and the agent is free.
func TestLateAnswersAreRefusedWithTheOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask  string
		ends func(w *testServer, a, call string)
		says string
	}{
		"expired":   {`/approve rm {} timeout=0.05`, func(*testServer, string, string) {}, "expired at"},
		"cancelled": {`/approve rm {}`, func(w *testServer, a, _ string) { get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "{}") }, "withdrawn at"},
		"answered": {`/approve rm {}`, func(w *testServer, a, call string) {
			get[answer](w, "POST", "/v1/agents/"+a+"/messages", `{"messages":[{"type":"approval","approvals":[{"tool_call_id":"`+call+`","approve":false}]}]}`)
		}, "answered by"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestServer(t, setup{})
			a := w.agent("")
			asked := w.say(a, c.ask)
			// Where little time is left the answer may tell of the end, too.
			last := asked.Messages[slices.IndexFunc(asked.Messages, func(m frame) bool { return m.Type == stream.KindApprovalRequest })]
			c.ends(w, a, last.Call.ID)
			// A stream after the question shows how the run ended.
			rest := w.open("/v1/runs/"+last.Run+"/stream", `{}`).rest()
			for len(rest) == 0 || rest[len(rest)-2].Stop == stream.StopApproval {
				rest = w.open("/v1/runs/"+last.Run+"/stream", `{}`).rest()
			}
			for range 2 { // before and after a restart
				for _, body := range []string{
					`{"type":"approval","approvals":[{"tool_call_id":"` + last.Call.ID + `","approve":true}]}`,
					`{"type":"approval","approval_request_id":"` + last.ID + `","approve":true}`,
					`{"type":"tool_return","tool_returns":[{"tool_call_id":"` + last.Call.ID + `","tool_return":"x","status":"success"}]}`,
				} {
					code, b := w.do("POST", "/v1/agents/"+a+"/messages", `{"messages":[`+body+`]}`)
					if code != http.StatusBadRequest || !strings.Contains(detailOf(b), "No tool call is currently awaiting approval") || !strings.Contains(detailOf(b), c.says) {
						t.Errorf("%s: %d %s", body, code, b)
					}
				}
				if got := w.say(a, "hello"); got.text() != "You said: hello" {
					t.Errorf("the agent is not free: %+v", got)
				}
				w = w.restart()
			}
		})
	}
}
