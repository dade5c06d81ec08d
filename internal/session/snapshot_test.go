package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// busy adds n turns with all kinds of events to a session.
func (w *testStore) busy(id chat.SessionID, n int) {
	for i := range n {
		w.say(id, fmt.Sprint("question ", i))
		ref := w.turn(id)
		w.append(bot, id, chat.AgentPlan{Tasks: []chat.Task{{ID: "1", Title: "t", Status: "pending"}}},
			chat.AgentToolCall{CallID: "c", Tool: "look"}, chat.AgentUsage{Usage: chat.Usage{InputTokens: 1}})
		w.show(ref, "b", 0, "answer")
		w.append(bot, id, chat.AgentToolResult{CallID: "c", Tool: "look", Result: json.RawMessage("1")},
			chat.AgentText{Block: "b", Text: fmt.Sprint("answer ", i)})
		p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "ok?"})
		if _, err := w.Answer(ctx, ann, id, p, chat.Answer{Text: "yes"}); err != nil {
			w.t.Fatal(err)
		}
		w.end(ref, chat.Done)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPagesTogetherHaveEveryItem(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.busy(id, 30)
	w.say(id, "last")
	var whole chat.Transcript
	for _, e := range w.events(id) {
		whole.Apply(&e)
	}
	for _, size := range []int{1, 3, 7, 50, 1000} {
		var got []chat.Item
		before := chat.Seq(0)
		for range 1000 {
			page, err := w.Items(ctx, ann, id, before, size)
			if err != nil {
				t.Fatal(err)
			}
			got = append(slices.Clone(page.Items), got...)
			if before = page.Before; !page.More {
				break
			}
		}
		if a, b := toJSON(t, got), toJSON(t, whole.Items); a != b {
			t.Fatalf("pages of %d give\n%s\nnot\n%s", size, a, b)
		}
	}
	// A long range without items must not restart the paging at the end.
	defer func(most int) { maxWindow = most }(maxWindow)
	maxWindow = 500
	drafts := make([]chat.Draft, 600)
	for i := range drafts {
		drafts[i] = chat.NewDraft(chat.AgentUsage{Usage: chat.Usage{InputTokens: 1}})
	}
	if _, err := w.Append(ctx, bot, id, drafts); err != nil {
		t.Fatal(err)
	}
	page, err := w.Items(ctx, ann, id, 0, 5)
	if err != nil || len(page.Items) != 0 || !page.More || page.Before == 0 {
		t.Fatal(page, err)
	}
	if page, err = w.Items(ctx, ann, id, page.Before, 5); err != nil || len(page.Items) != 5 {
		t.Fatal(page, err)
	}
}

// A page of large events ends early to bound memory, and the pages together have every
// item once.
func TestPagesOfLargeEventsAreBounded(t *testing.T) {
	defer func(most int) { windowBytes = most }(windowBytes)
	windowBytes = 4000
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.busy(id, 10)
	var whole chat.Transcript
	for _, e := range w.events(id) {
		whole.Apply(&e)
	}
	snap, err := w.Snapshot(ctx, ann, id, 1000)
	if err != nil || !snap.More || len(snap.Items) == 0 || len(snap.Items) >= len(whole.Items) {
		t.Fatalf("%d items of %d, more %t, %v", len(snap.Items), len(whole.Items), snap.More, err)
	}
	// An item that begins before a page is complete in the previous page.
	join := func(older, newer []chat.Item) []chat.Item {
		return append(slices.Clone(older), slices.DeleteFunc(slices.Clone(newer), func(it chat.Item) bool { return it.Headless })...)
	}
	got, before := snap.Items, snap.Items[0].Seq
	for more := true; more; {
		page, err := w.Items(ctx, ann, id, before, 1000)
		if err != nil || page.More && page.Before >= before {
			t.Fatal(page, err)
		}
		got, before, more = join(page.Items, got), page.Before, page.More
	}
	if a, b := toJSON(t, got), toJSON(t, whole.Items); a != b {
		t.Fatalf("the pages give\n%s\nnot\n%s", a, b)
	}
}

func TestSnapshotAndLaterEventsGiveTheWholeTranscript(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.busy(id, 5)
	w.say(id, "more")
	ref := w.turn(id)
	w.show(ref, "open", 0, "so far")
	snap, err := w.Snapshot(ctx, ann, id, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Open) != 1 || snap.Open[0].Text.Text != "so far" || snap.Cursor.String() != fmt.Sprintf("%d~open.6", snap.Session.Last) || snap.More {
		t.Fatal(toJSON(t, snap))
	}
	// Fold the rest after the snapshot, and everything from the beginning.
	folded := chat.Transcript{State: *w.state(id), Items: snap.Items, Open: snap.Open}
	late, early := newReader(snap.Cursor), newReader(chat.Cursor{})
	watch, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, r := range []*reader{late, early} {
		go func() { _ = r.run(watch, w.Sessions, ann, id) }()
	}
	w.show(ref, "open", 6, ", so good")
	w.append(bot, id, chat.AgentText{Block: "open", Text: "so far, so good."})
	w.end(ref, chat.Done)
	evs := w.events(id)
	early.until(func() bool { return len(early.log) == len(evs) })
	late.until(func() bool { return late.cursor.Seq == evs[len(evs)-1].Seq })
	if len(late.log) != 2 || late.log[0] != early.log[len(evs)-2] {
		t.Fatalf("the rest is %v", late.log)
	}
	rest := chat.FoldWindow(&folded.State, nil)
	rest.Items = append(rest.Items, snap.Items...)
	for _, e := range evs[len(evs)-2:] {
		rest.Apply(&e)
	}
	if a, b := len(rest.Items), len(early.fold.Items); a != b || rest.Items[a-1].Text.Text != early.fold.Items[b-1].Text.Text {
		t.Fatalf("%d items, not %d", a, b)
	}
	if a, b := toJSON(t, w.state(id).View()), toJSON(t, early.fold.State.View()); a != b {
		t.Fatalf("lived through %s\nstored %s", b, a)
	}
}

// A call and its result have the same id, by which a reader shows them as one.
func TestSearchNamesCalls(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "find it")
	ref := w.turn(id)
	w.append(bot, id, chat.AgentToolCall{CallID: "c1", Tool: "find_needle"}, chat.AgentToolResult{CallID: "c1", Tool: "find_needle", Result: json.RawMessage(`"here"`)})
	page, err := w.Search(ctx, ann, id, "needle", 0, 10)
	if err != nil || len(page.Hits) != 2 {
		t.Fatal(page, err)
	}
	for _, h := range page.Hits {
		if h.Call != "c1" || h.Turn != ref.Turn {
			t.Errorf("%+v", h)
		}
	}
}

func TestSearchFindsText(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	w.say(id, "Nothing here")
	w.say(id, "A Needle in the \"hay\"")
	w.say(id, strings.Repeat("Ⱥ", 200)+"needle "+strings.Repeat("Ⱥ", 200)) // is longer in lower case
	w.append(ann, id, chat.Unknown{Name: "my.thing", Payload: json.RawMessage(`{"deep":[{"x":"NEEDLE \u00e9"}],"block":"needle"}`)})
	w.append(ann, id, chat.Unknown{Name: "my.thing", Payload: json.RawMessage(`{"block":"needle"}`)})
	page, err := w.Search(ctx, ann, id, "neeDle", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var seqs []chat.Seq
	for _, h := range page.Hits {
		seqs = append(seqs, h.Seq)
		if !strings.Contains(strings.ToLower(h.Snippet), "needle") {
			t.Errorf("snippet %q", h.Snippet)
		}
	}
	if !slices.Equal(seqs, []chat.Seq{5, 4, 3}) || page.More {
		t.Fatal(seqs, page.More)
	}
	for query, want := range map[string]chat.Seq{`"hay"`: 3, "é": 5, "nothing": 2} {
		if page, err = w.Search(ctx, ann, id, query, 0, 10); err != nil || len(page.Hits) != 1 || page.Hits[0].Seq != want {
			t.Fatal(query, page, err)
		}
	}
	// Page by page.
	seqs = nil
	before := chat.Seq(0)
	for range 10 {
		page, err = w.Search(ctx, ann, id, "needle", before, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range page.Hits {
			seqs = append(seqs, h.Seq)
		}
		if before = page.Before; !page.More {
			break
		}
	}
	if !slices.Equal(seqs, []chat.Seq{5, 4, 3}) {
		t.Fatal(seqs)
	}
	_, err = w.Search(ctx, ann, id, "", 0, 10)
	w.wantCode(err, chat.Invalid)
}
