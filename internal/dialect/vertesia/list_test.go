package vertesia

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// longList is a list of sessions, the most recently active first. Sessions of one
// second have any order.
type longList struct {
	sessions
	all   []chat.Session
	lists int
}

func (m *longList) List(_ context.Context, _ chat.Caller, f core.Filter) (chat.SessionPage, error) {
	m.lists++
	from, _ := strconv.Atoi(f.Cursor)
	to := min(from+f.Limit, len(m.all))
	page := chat.SessionPage{Sessions: append([]chat.Session{}, m.all[from:to]...)}
	if to < len(m.all) {
		page.Next = strconv.Itoa(to)
	}
	return page, nil
}

// A page of a long list is found without reading the whole list, and the pages
// together have every run.
func TestLongListsAreNotReadWhole(t *testing.T) {
	const n, perSecond = 3900, 130
	m := &longList{}
	for i := range n {
		second, in := n/perSecond-i/perSecond, (i*37)%perSecond
		at := chat.At(1_700_000_000_000_000 + second*1_000_000 + in*1000)
		m.all = append(m.all, chat.Session{ID: chat.SessionID(fmt.Sprint("s", second, "-", in)), CreatedAt: at, UpdatedAt: at})
	}
	d := &Dialect{opt: Options{Sessions: m}}
	page := func(w filter) (found []*chat.Session, total int, next string) {
		t.Helper()
		found, total, next, err := d.listPage(t.Context(), chat.Trusted, &w)
		if err != nil {
			t.Fatal(err)
		}
		return found, total, next
	}
	if _, total, _ := page(filter{limit: 50}); m.lists > 7 || total < 1000 || total == n {
		t.Errorf("the first page took %d lists and counts %d", m.lists, total)
	}
	if _, total, _ := page(filter{limit: 50, sort: "started_at"}); total != n {
		t.Errorf("sorted by their beginning there are %d", total)
	}
	// More sessions than one request reads.
	defer func(n int) { maxScan = n }(maxScan)
	maxScan = 1200
	last := chat.At(1 << 62)
	seen, total := 0, 0
	for w := (filter{limit: 150}); ; {
		found, sum, next := page(w)
		for _, s := range found {
			if s.UpdatedAt >= last {
				t.Fatalf("%s comes after a later one", s.ID)
			}
			last = s.UpdatedAt
		}
		if seen += len(found); sum < seen {
			t.Errorf("%d are counted, and %d were there", sum, seen)
		}
		total = sum
		if w.cursor = next; next == "" {
			break
		}
	}
	if seen != n || total != n {
		t.Errorf("the pages have %d of %d, and count %d", seen, n, total)
	}
}
