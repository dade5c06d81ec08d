package session

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A message may have the state of the line that its sender saw. If the line has changed,
// the append is a conflict and stores nothing.
func TestAppendConflictsWhenTheLineHasChanged(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{})
	send := func(x chat.Expected) error {
		d := chat.NewDraft(chat.UserMessage{Text: "x"})
		d.Expect = &x
		_, err := w.Append(ctx, ann, id, []chat.Draft{d})
		return err
	}
	wants := func(x chat.Expected) {
		t.Helper()
		err := send(x)
		if chat.CodeOf(err) != chat.Conflict || chat.Public(err).Reason != chat.SessionChanged {
			t.Errorf("%+v: %v", x, err)
		}
	}
	w.say(id, "a")
	ref := w.turn(id)
	wants(chat.Expected{})
	wants(chat.Expected{Turn: "t-other"})
	wants(chat.Expected{Turn: ref.Turn, Queue: []chat.Seq{2}})
	if err := send(chat.Expected{Turn: ref.Turn}); err != nil {
		t.Fatal(err)
	}
	wants(chat.Expected{Turn: ref.Turn}) // one message is queued now
	if err := send(chat.Expected{Turn: ref.Turn, Queue: []chat.Seq{4}}); err != nil {
		t.Fatal(err)
	}
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "user.message x", "user.message x")
}
