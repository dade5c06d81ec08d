package session

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// TestReceiptSaysWhatIsNotErasedYet: copies that are still being overwritten are
// named; those that are gone are not.
func TestReceiptSaysWhatIsNotErasedYet(t *testing.T) {
	gone, asked := false, chat.SessionID("")
	w := newWorld(t, Options{Forgotten: func(_ context.Context, id chat.SessionID) bool { asked = id; return gone }})
	for _, name := range []chat.SessionID{"slow", "quick"} {
		id := w.begin(name)
		gone = name == "quick"
		receipt, err := w.Erase(ctx, ann, id)
		if err != nil || asked != id || strings.Contains(receipt.Note, "still being overwritten") == gone {
			t.Errorf("gone %v: %+v, %v, asked for %s", gone, receipt, err, asked)
		}
	}
}
