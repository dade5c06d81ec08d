package x1

import (
	"context"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

func TestAnErasedSessionIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	w.create("s1", chat.NoAgent)
	for range 5 {
		w.append("s1", chat.AgentText{Text: secret})
	}
	w.complete("s1")
	w.until("the text is in a file", func() bool { return len(filesContaining(t, dir+"/nats")) > 0 }) // NATS writes a moment later
	if _, err := w.Sessions.Erase(t.Context(), auth.Local, "s1"); err != nil {
		t.Fatal(err)
	}
	if !w.dialect.WaitErased(t.Context(), "s1") {
		t.Fatal("not forgotten, though there was time")
	}
	if files := filesContaining(t, dir); len(files) > 0 {
		t.Errorf("the text is still in %v", files)
	}
}

// NATS is not connected, so the erasure cannot be completed.
func TestWaitingForAnErasureCanBeCancelled(t *testing.T) {
	w := newServer(t, options{notStarted: true})
	w.create("s1", chat.NoAgent)
	if _, err := w.Sessions.Erase(t.Context(), auth.Local, "s1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w.dialect.WaitErased(ctx, "s1") {
		t.Error("it says forgotten, and nobody could do that")
	}
	if !w.dialect.WaitErased(ctx, "s2") {
		t.Error("it waits for a session that was not erased")
	}
}
