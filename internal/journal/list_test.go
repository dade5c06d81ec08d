package journal

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Very many sessions of one second are listed without a look at all of them for
// every page; the pages show each exactly once, also while some become
// active again.
func TestListOfManySessionsInOneSecond(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem(), Sync: SyncNever})
	const sessions = 3*exactBucket + 7
	second := epoch
	begin := func(name string, at chat.At) *author {
		a, err := newAuthor(j, chat.SessionID(name))
		if err != nil {
			t.Fatal(err)
		}
		a.Clock = at
		return a.append(t, chat.SessionStarted{Agent: chat.NoAgent, Workspace: chat.DefaultWorkspace})
	}
	begin("s-old", second-20<<20)
	authors := make([]*author, sessions)
	for i := range authors {
		authors[i] = begin(fmt.Sprintf("s-%d", i), second)
	}
	begin("s-new", second+20<<20)

	seen := map[chat.SessionID]int{}
	var order []chat.SessionID
	moved, cursor := 0, ""
	for pages := 1; ; pages++ {
		page, err := j.List(ctx, core.Filter{Limit: 100, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Sessions {
			seen[s.ID]++
			order = append(order, s.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if pages%4 == 0 { // one that is still to come, or was there, goes to the front
			authors[pages*37%sessions].Clock = second + 40<<20 + chat.At(pages)
			authors[pages*37%sessions].append(t, message("again"))
			moved++
		}
		if pages > sessions {
			t.Fatal("the list has no end")
		}
	}
	if order[0] != "s-new" || order[len(order)-1] != "s-old" {
		t.Errorf("from %s to %s", order[0], order[len(order)-1])
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was shown %d times", id, n)
		}
	}
	if missing := sessions + 2 - len(seen); missing > moved {
		t.Errorf("%d sessions were not shown, %d became active meanwhile", missing, moved)
	}
}
