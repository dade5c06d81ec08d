package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func jsonOf(t tb, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func fold(events []Event) *Transcript {
	t := new(Transcript)
	for i := range events {
		t.Apply(&events[i])
	}
	return t
}

// A window has the items of the whole log, and marks those that begin before it or end after it.
func TestWindowHasTheItemsOfTheWholeLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, false)
		events := s.events()
		whole := fold(events)
		from := rapid.IntRange(0, len(events)-1).Draw(rt, "from")
		window := FoldWindow(&whole.State, events[from:])
		checkWindow(rt, whole, window, events[from].Seq, s.seq)
		if jsonOf(rt, window.State) != jsonOf(rt, whole.State) {
			rt.Fatal("the window changed the state")
		}
	})
}

func checkWindow(rt *rapid.T, whole, window *Transcript, from, to Seq) {
	rt.Helper()
	all, seen := map[string]Item{}, map[string]bool{}
	for _, it := range whole.Items {
		all[it.ID] = it
	}
	for _, it := range window.Items {
		full, ok := all[it.ID]
		if !ok {
			rt.Fatalf("the whole has no item %s", it.ID)
		}
		seen[it.ID] = true
		if full.Seq < from && !it.Headless {
			rt.Fatalf("%s began at %d, before %d, and does not say so", it.ID, full.Seq, from)
		}
		if full.Seq >= from {
			full.Headless, it.Headless = false, false
			if a, b := jsonOf(rt, full), jsonOf(rt, it); a != b {
				rt.Fatalf("from %d:\nwhole  %s\nwindow %s", from, a, b)
			}
		}
	}
	for _, it := range whole.Items {
		if it.Seq >= from && it.Seq <= to && !seen[it.ID] {
			rt.Fatalf("the window from %d lacks %s", from, jsonOf(rt, it))
		}
	}
}

// A frozen page that applies later events has the ends of its items.
func TestOlderPageReceivesTheEndsOfItsItems(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, false)
		events := s.events()
		whole := fold(events)
		from := rapid.IntRange(0, len(events)-1).Draw(rt, "from")
		to := rapid.IntRange(from+1, len(events)).Draw(rt, "to")
		page := FoldWindow(&whole.State, events[from:to])
		n := len(page.Items)
		page.Freeze()
		for i := to; i < len(events) && !page.Settled(); i++ {
			page.Apply(&events[i])
		}
		if len(page.Items) != n {
			rt.Fatal("a frozen page grew")
		}
		// Files may be removed at any later time, so a page does not wait for it.
		for i := range whole.Items {
			if f := whole.Items[i].File; f != nil {
				whole.Items[i].File, whole.Items[i].Last = &FileItem{Path: f.Path}, 0
			}
		}
		for i := range page.Items {
			if f := page.Items[i].File; f != nil {
				page.Items[i].File, page.Items[i].Last = &FileItem{Path: f.Path}, 0
			}
		}
		checkWindow(rt, whole, page, events[from].Seq, events[to-1].Seq)
	})
}

// Folding live frames, with previews and repeated frames, gives the same items as folding the log. Ids are unique, also in
// a log with invalid events.
func TestLiveFoldEqualsReplay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, rapid.Bool().Draw(rt, "wild"))
		live := new(Transcript)
		shown := map[string]string{} // id of open block → text
		for _, e := range s.entries {
			for range rapid.IntRange(1, 2).Draw(rt, "times") {
				if e.preview != nil {
					live.Preview(e.preview)
				} else {
					live.Apply(e.event)
				}
			}
			for _, it := range live.Open {
				if !strings.HasPrefix(it.Text.Text, shown[it.ID]) || !it.Open {
					rt.Fatalf("%s went from %q to %q", it.ID, shown[it.ID], it.Text.Text)
				}
				shown[it.ID] = it.Text.Text
			}
		}
		replayed := fold(s.events())
		if a, b := jsonOf(rt, live.Items), jsonOf(rt, replayed.Items); a != b {
			rt.Fatalf("live   %s\nreplay %s", a, b)
		}
		ids := map[string]bool{}
		for i, it := range live.View() {
			if ids[it.ID] {
				rt.Fatalf("two items are called %s", it.ID)
			}
			ids[it.ID] = true
			if i > 0 && i < len(live.Items) && live.Items[i-1].Seq > it.Seq {
				rt.Fatal("items are out of order")
			}
			checkShape(rt, it)
		}
		// A block keeps the id under which it was shown.
		for id, text := range shown {
			if i := slices.IndexFunc(live.View(), func(it Item) bool { return it.ID == id }); i >= 0 && live.View()[i].Text.Text != text {
				rt.Fatalf("%s was shown as %q", id, text)
			}
		}
	})
}

// checkShape checks that an item has only the field of its kind.
func checkShape(t tb, it Item) {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(jsonOf(t, it)), &m); err != nil {
		t.Fatal(err)
	}
	want := string(it.Kind)
	if it.Kind == ItemThinking {
		want = "text"
	}
	for _, part := range []string{"message", "text", "tool", "prompt", "plan", "artifact", "file", "share", "status", "error", "notice", "workstream", "custom"} {
		if _, ok := m[part]; ok != (part == want) {
			t.Fatalf("item of kind %s: %s", it.Kind, jsonOf(t, it))
		}
	}
}

// A copy of the slice does not change while the fold continues.
func TestItemsAreReplacedNotChanged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, true)
		live := new(Transcript)
		type copied struct {
			items []Item
			json  string
		}
		var copies []copied
		for _, e := range s.entries {
			if e.preview != nil {
				live.Preview(e.preview)
			} else {
				live.Apply(e.event)
			}
			view := live.View()
			copies = append(copies, copied{view, jsonOf(rt, view)})
		}
		for _, c := range copies {
			if jsonOf(rt, c.items) != c.json {
				rt.Fatal("an older copy changed")
			}
		}
	})
}

func TestLateJoinerSeesTheOpenBlock(t *testing.T) {
	s := newScript(t)
	turn := s.answering("count")
	tr := s.transcript()
	tr.Begin(&Block{ID: "b1", Kind: TextBlock, Text: "one two ", Turn: turn})
	tr.Preview(&Preview{Block: "b1", Offset: 4, Text: "two three", Kind: TextBlock, Turn: turn})
	tr.Preview(&Preview{Block: "b9", Offset: 5, Text: "no beginning", Kind: TextBlock, Turn: turn})
	if len(tr.Open) != 1 || tr.Open[0].Text.Text != "one two three" || tr.Open[0].ID != "b-"+string(turn)+".b1" {
		t.Fatalf("%+v", tr.Open)
	}
}

func TestSecondCallWithTheSameIDIsAnotherItem(t *testing.T) {
	s := newScript(t)
	s.answering("go")
	s.on("", AgentToolCall{CallID: "c", Tool: "a"})
	s.on("", AgentToolCall{CallID: "c", Tool: "a"})
	s.on("", AgentToolResult{CallID: "c", Result: raw(`"second"`)})
	items := s.transcript().Items[1:]
	if items[0].Tool.Status != ToolUnknown || items[1].Tool.Status != ToolOK || items[0].ID == items[1].ID {
		t.Fatalf("%s", jsonOf(t, items))
	}
}

// longLog makes a session of about n events, with the mixture of a busy agent.
func longLog(tb testing.TB, n int) ([]Event, *State) {
	s := newScript(tb)
	for s.seq < Seq(n) {
		s.answering("question")
		s.on("", AgentPlan{Tasks: []Task{{ID: "1", Title: "Look", Status: "pending"}}})
		for i := range 8 {
			id := "c" + strconv.Itoa(i)
			s.on("", AgentToolCall{CallID: id, Tool: "search", Params: raw(`{"q":"margins in the south","limit":20}`)})
			s.on("", AgentToolProgress{CallID: id, Done: 1, Total: 2, Message: "reading"})
			s.on("", AgentToolProgress{CallID: id, Done: 2, Total: 2, Message: "reading"})
			s.on("", AgentToolResult{CallID: id, Tool: "search", Result: raw(`{"hits":[{"title":"one","score":0.5}]}`)})
		}
		s.on("", AgentText{Block: "b1", Text: strings.Repeat("An answer of some length. ", 12), Final: true})
		s.done("", Done, "")
	}
	events := s.events()
	return events, &fold(events).State
}

func BenchmarkFoldWindow(b *testing.B) {
	events, state := longLog(b, 3000)
	for _, n := range []int{1500, 3000} {
		window := events[len(events)-n:]
		facts := make([]Fact, n)
		for i := range window {
			facts[i] = window[i].Fact()
		}
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if t := FoldWindow(state, window); len(t.Items) < 100 {
					b.Fatal(len(t.Items))
				}
			}
		})
		b.Run(fmt.Sprintf("parse+fold+encode,events=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var items, size int
			for b.Loop() {
				parsed := make([]Event, n)
				for i, f := range facts {
					var err error
					if parsed[i], err = f.Event(); err != nil {
						b.Fatal(err)
					}
				}
				t := FoldWindow(state, parsed)
				out, err := json.Marshal(t.Items)
				if err != nil {
					b.Fatal(err)
				}
				items, size = len(t.Items), len(out)
			}
			b.ReportMetric(float64(items), "items")
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// One event costs the same in a long session as in a short one.
func BenchmarkTranscriptApply(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		events, _ := longLog(b, n)
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			for b.Loop() {
				fold(events)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(events)), "ns/event")
		})
	}
}
