package chat

import (
	"testing"

	"pgregory.net/rapid"
)

// A transcript that continues a snapshot has the items, open blocks and prompts of the whole log.
func TestTranscriptContinuesFromASnapshot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, false)
		at := rapid.IntRange(0, len(s.entries)).Draw(rt, "snapshot at")
		whole := new(Transcript)
		apply := func(t *Transcript, from, to int) {
			for _, e := range s.entries[from:to] {
				if e.preview != nil {
					t.Preview(e.preview)
				} else {
					t.Apply(e.event)
				}
			}
		}
		apply(whole, 0, at)
		from := rapid.IntRange(0, len(whole.Items)).Draw(rt, "first item")
		snap := Snapshot{
			Session: whole.State.Session, State: whole.State.View(), Items: whole.Items[from:], Open: whole.Open,
			More: from > 0, Cursor: Cursor{Seq: whole.last},
		}
		continued := snap.Transcript()
		apply(whole, at, len(s.entries))
		apply(continued, at, len(s.entries))
		if jsonOf(rt, continued.Open) != jsonOf(rt, whole.Open) {
			rt.Fatalf("open blocks\n%s\nwant\n%s", jsonOf(rt, continued.Open), jsonOf(rt, whole.Open))
		}
		if jsonOf(rt, continued.State.View().Prompts) != jsonOf(rt, whole.State.View().Prompts) {
			rt.Fatal("the prompts differ")
		}
		first := whole.last + 1
		if len(continued.Items) > 0 {
			first = continued.Items[0].Seq
		}
		checkWindow(rt, whole, continued, first, whole.last)
	})
}
