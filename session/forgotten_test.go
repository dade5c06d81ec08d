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

// An erasure that has to wait for old files has erased the session all the same:
// who watches it, or keeps copies, hears of it.
func TestErasedButForOldFiles(t *testing.T) {
	told := chat.SessionID("")
	w := newWorld(t, Options{Erased: func(id chat.SessionID) { told = id }})
	id := w.begin("s")
	w.Sessions = New(&sticky{w.log}, w.hub, w.opt)
	ended := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		for _, err := range w.Watch(t.Context(), ann, id, chat.Start{}, nil) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case <-begun:
			default:
				close(begun)
			}
		}
		ended <- nil
	}()
	<-begun
	_, err := w.Erase(ctx, ann, id)
	w.wantCode(err, chat.Unavailable)
	if told != id {
		t.Fatalf("%q is told to be erased", told)
	}
	w.wantCode(<-ended, chat.Gone)
}

// sticky is a journal that cannot get rid of its old files.
type sticky struct{ *spy }

func (j *sticky) Erase(ctx context.Context, id chat.SessionID) (chat.Receipt, error) {
	if _, err := j.spy.Erase(ctx, id); err != nil {
		return chat.Receipt{}, err
	}
	return chat.Receipt{}, chat.Errorf(chat.Unavailable, "a file is still in use")
}
