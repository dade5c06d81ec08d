package agui

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/parley-hq/parley/chat"
)

// randomJSON is a value with few different names, so that two values have much in common.
func randomJSON(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(7); {
	case n < 2 && depth > 0:
		m := map[string]any{}
		for range rng.IntN(4) {
			m[[]string{"a", "b/c", "d~e", "ü"}[rng.IntN(4)]] = randomJSON(rng, depth-1)
		}
		return m
	case n < 4 && depth > 0:
		l := []any{}
		for range rng.IntN(4) {
			l = append(l, randomJSON(rng, depth-1))
		}
		return l
	}
	return []any{nil, true, 1, 12345678901234567, "x", "a longer text"}[rng.IntN(6)]
}

func TestDiffLeadsFromOneValueToTheOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		old, _ := json.Marshal(map[string]any{"v": randomJSON(rng, 4)})
		now, _ := json.Marshal(map[string]any{"v": randomJSON(rng, 4)})
		patch, _ := json.Marshal(diff([]patchOp{}, "", old, now))
		ops, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ops.Apply(old)
		if err != nil || !chat.SameJSON(got, now) {
			t.Fatalf("%s changed by %s is %s, not %s: %v", old, patch, got, now, err)
		}
	}
}

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
