package agui

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/pages"
)

func TestInspectorShowsEachEventInAGUI(t *testing.T) {
	s := newTestServer(t, setup{})
	d := New(Options{Options: pages.Options{Sessions: s.Sessions}})
	s.run(body("th", "r1", `u1 /tool search {"q":1}`))
	shown := map[string]string{}
	for _, e := range s.Events("th") {
		fact, err := s.Sessions.Fact(t.Context(), chat.Trusted, "th", e.Seq)
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.As(t.Context(), fact)
		if err != nil {
			t.Fatal(e.Type, err)
		}
		var types []string
		for _, raw := range v.([]json.RawMessage) {
			var one struct{ Type string }
			if err := json.Unmarshal(raw, &one); err != nil {
				t.Fatal(err)
			}
			types = append(types, one.Type)
		}
		shown[e.Type] = strings.Join(types, " ")
	}
	for typ, want := range map[string]string{
		"turn.started": "RUN_STARTED", "agent.tool_call": "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END", "agent.tool_result": "TOOL_CALL_RESULT",
		"agent.text": "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END", "turn.completed": "RUN_FINISHED", "session.started": "",
	} {
		if got, ok := shown[typ]; !ok || got != want {
			t.Errorf("%s is shown as %q, not %q", typ, got, want)
		}
	}
}
