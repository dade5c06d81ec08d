package nemo

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// The frames have the ids and parents that a client of the conversation would get.
func TestAsReturnsFramesOfEvents(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := chat.Trusted
	if code, body, _ := w.Call("POST", "/chat", chatBody(`/tool calc {"a":1}`)); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	list, err := w.Sessions.List(t.Context(), c, core.Filter{Limit: 1})
	if err != nil || len(list.Sessions) != 1 {
		t.Fatalf("%v, %d sessions", err, len(list.Sessions))
	}
	id := list.Sessions[0].ID
	_, err = w.Sessions.Append(t.Context(), c, id, []chat.Draft{
		{Body: chat.AgentInputRequest{RequestID: "q1", InputType: chat.InputText, Text: "Which one?"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	facts, _, err := w.Sessions.Read(t.Context(), c, id, chat.Range{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			t.Fatal(err)
		}
		v, err := w.dialect.As(t.Context(), f)
		if err != nil {
			t.Fatalf("%s: %v", e.Type, err)
		}
		for _, frame := range v.([]json.RawMessage) {
			var head struct {
				Type         string
				Conversation string `json:"conversation_id"`
			}
			if err := json.Unmarshal(frame, &head); err != nil {
				t.Fatalf("%s: %v in %s", e.Type, err, frame)
			}
			if head.Conversation != string(id) {
				t.Errorf("%s: conversation %q in %s", e.Type, head.Conversation, frame)
			}
			got[e.Type] = append(got[e.Type], head.Type)
		}
	}
	for typ, want := range map[string]string{
		"agent.tool_call": typeStep, "agent.tool_result": typeStep, "agent.text": typeResponse,
		"turn.completed": typeResponse, "agent.input_request": "system_interaction_message", "user.message": "", "session.started": "",
	} {
		if list := strings.Join(got[typ], " "); want == "" && list != "" || !strings.HasPrefix(list, want) {
			t.Errorf("%s became %q, want %q first", typ, list, want)
		}
	}
}
