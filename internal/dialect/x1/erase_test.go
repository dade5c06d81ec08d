package x1

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// archivedWith counts the messages of the archive that hold a text. It reads the
// stream by sequence, so that no index of NATS can hide a message.
func (w *testServer) archivedWith(text string) (found int) {
	w.t.Helper()
	js, err := jetstream.New(w.own().Conn)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := js.Stream(w.t.Context(), ArchiveStream)
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := s.Info(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		if m, err := s.GetMsg(w.t.Context(), seq); err == nil && bytes.Contains(m.Data, []byte(text)) {
			found++
		}
	}
	return found
}

// Sessions that fill several blocks of the archive are erased at the same time.
func TestLargeSessionsLeaveNothingInTheArchive(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	ids := []chat.SessionID{"s1", "s2", "s3", "s4"}
	for _, id := range append(ids, "other") {
		w.create(id, chat.NoAgent)
	}
	chance := rand.New(rand.NewPCG(1, 2))
	stored := 0
	for range 400 { // 36 MB, in blocks of 8 MiB
		id, text := chat.SessionID("other"), strings.Repeat("x", chance.IntN(180_000))
		if k := chance.IntN(len(ids) + 1); k < len(ids) {
			id, text = ids[k], secret+text
			stored++
		}
		w.append(id, chat.AgentText{Text: text})
	}
	for _, id := range append(ids, "other") {
		w.complete(id)
	}
	if n := w.archivedWith(secret); n != stored {
		t.Fatalf("the archive has %d messages with the text", n)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // the archive goes on meanwhile
		for range 50 {
			w.append("other", chat.AgentText{Text: strings.Repeat("x", 50_000)})
		}
	})
	for _, id := range ids {
		wg.Go(func() {
			if _, err := w.Sessions.Erase(t.Context(), auth.Local, id); err != nil {
				t.Error(err)
			}
			if !w.dialect.WaitErased(t.Context(), id) {
				t.Error("not forgotten, though there was time")
			}
		})
	}
	wg.Wait()
	if n := w.archivedWith(secret); n > 0 {
		t.Errorf("the archive still has %d messages with the text", n)
	}
	if files := filesContaining(t, dir); len(files) > 0 {
		t.Errorf("the text is still in %v", files)
	}
	w.complete("other")
	w.close()
	w = newServer(t, options{dir: dir})
	if n := w.archivedWith(secret); n > 0 {
		t.Errorf("after a restart the archive has %d messages with the text", n)
	}
	w.complete("other")
}
