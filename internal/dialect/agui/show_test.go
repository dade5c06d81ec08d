package agui

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestActivityThatChangesALittleIsADelta(t *testing.T) {
	l := &randomLog{blocks: map[string]int{}}
	l.turn = "t1"
	l.add("", chat.TurnStarted{TurnID: "t1"})
	tasks := func(status string) chat.AgentPlan {
		return chat.AgentPlan{Tasks: []chat.Task{{ID: "1", Title: "collect the numbers of the year", Status: "done"}, {ID: "2", Title: "draw the chart", Status: status}}}
	}
	l.add("", tasks("pending"))
	l.add("", tasks("done"))
	state := func(s string) chat.Unknown {
		return chat.Unknown{Name: "remote.round", Payload: json.RawMessage(`{"state":` + s + `}`)}
	}
	l.add("", state(`{"title":"A long title that stays","n":1}`))
	l.add("", state(`{"title":"A long title that stays","n":2}`))
	l.add("", state(`{"n":2}`))
	var got []string
	for _, f := range framesOf(l.entries, variant{v1: true}, false) {
		var e struct {
			Type         string
			Patch, Delta json.RawMessage
		}
		if err := json.Unmarshal(f.data, &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Type+string(e.Patch)+string(e.Delta))
	}
	want := []string{
		"RUN_STARTED", "ACTIVITY_SNAPSHOT", `ACTIVITY_DELTA[{"op":"replace","path":"/tasks/1/status","value":"done"}]`,
		"STATE_SNAPSHOT", `STATE_DELTA[{"op":"replace","path":"/n","value":2}]`, "STATE_SNAPSHOT",
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}
