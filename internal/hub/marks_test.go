package hub

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-hq/parley/chat"
)

// A reader that missed events while a block was open comes back with a part of
// that block: should it be cut again between the old events, the cursor of the
// last one must still say what it has.
func TestCursorsOfOldEventsKeepTheMarks(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"), w.piece("b1", "Hello"), w.piece("b2", "old"))
		w.publish(w.message("two"), w.finish("b2"), w.message("four"))
		watch(t, h, "s", at(1), &lines{}) // somebody shares the plain bytes
		var cursors []string
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for b, err := range h.Watch(ctx, "s", at(1, chat.Mark{Block: "b1", Bytes: 3}, chat.Mark{Block: "b2", Bytes: 3}), nil) {
				if err != nil {
					t.Error(err)
				}
				for _, e := range b.Entries {
					cursors = append(cursors, e.Cursor.String())
				}
			}
		}()
		synctest.Wait()
		cancel()
		want := "2~b1.3~b2.3 3~b1.3 4~b1.3 4~b1.5"
		if got := strings.Join(cursors, " "); got != want {
			t.Errorf("cursors\n%s, want\n%s", got, want)
		}
	})
}
