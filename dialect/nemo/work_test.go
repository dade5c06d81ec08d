package nemo

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A person who watches parallel work sees each line with its phases, warnings
// and result, below one step each.
func TestAWorkstreamIsSeen(t *testing.T) {
	f := newFeed("c", chat.Cursor{})
	var shown []string
	ids := map[string]string{}
	for i, body := range []chat.Body{
		chat.WorkstreamLaunched{ID: "w1", Name: "Part 1", Task: "Do part 1."},
		chat.WorkstreamProgress{ID: "w1", Phase: chat.PhasePlanning, Iteration: 1, Message: "Planning."},
		chat.WorkstreamProgress{ID: "w1", Phase: chat.PhaseTool, Tool: "look_up", Iteration: 2, Share: 0.5},
		chat.WorkstreamWarning{ID: "w1", Share: 0.75, Message: "It has 18s left."},
		chat.WorkstreamWarning{ID: "w1", Share: 0.9},
		chat.WorkstreamCompleted{ID: "w1", Summary: "Part 1 is done."},
	} {
		draft := chat.NewDraft(body)
		if err := draft.Settle(); err != nil {
			t.Fatal(err)
		}
		e := chat.Event{Session: "c", Seq: chat.Seq(i + 1), ID: chat.EventID(chat.MakeID(1, chat.Seq(i+1)).Text(chat.EventPrefix)), Type: draft.Type, Payload: draft.Payload, Body: body}
		f.fact(&e)
	}
	work := ""
	for _, it := range f.out {
		shown = append(shown, it.name+" | "+it.text)
		switch {
		case strings.HasPrefix(it.name, "Function Start"):
			work = it.id
		case strings.HasPrefix(it.name, "Function Complete"):
			if it.id != work {
				t.Error("the end has a step of its own")
			}
		case it.parent != work:
			t.Errorf("%s is not below its workstream", it.name)
		case strings.HasPrefix(it.name, "Progress") && ids["progress"] != "" && ids["progress"] != it.id:
			t.Error("progress does not take the place of what was there")
		case strings.HasPrefix(it.name, "Warning") && ids["warning"] == it.id:
			t.Error("one warning takes the place of the other")
		}
		ids[strings.ToLower(strings.SplitN(it.name, ":", 2)[0])] = it.id
	}
	want := []string{
		"Function Start: Part 1 | ", "Progress: Part 1 | planning, step 1\n\nPlanning.", "Progress: Part 1 | executing tool look_up, step 2, 50 % of its time",
		"Warning: Part 1 | 75 % of its time has passed. It has 18s left.", "Warning: Part 1 | 90 % of its time has passed.", "Function Complete: Part 1 | ",
	}
	if len(shown) != len(want) {
		t.Fatalf("shown are\n%s", strings.Join(shown, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(shown[i], want[i]) {
			t.Errorf("shown is %q, want %q", shown[i], want[i])
		}
	}
}
