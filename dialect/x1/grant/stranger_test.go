package grant

import (
	"fmt"
	"testing"
)

// Anybody may ask for a link. What does not exist leaves nothing in memory.
func TestLinksOfStrangersLeaveNothing(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		if code, _ := w.call("", "GET", fmt.Sprintf("/api/shares/workspace-%d/link", i), ""); code != 404 {
			t.Fatalf("a link that leads nowhere: %d", code)
		}
	}
	if n := len(w.desk.Shares.books.all); n != 0 {
		t.Errorf("%d records are kept for workspaces that do not exist", n)
	}
}
