// Tests of resumption in every dialect after a kill.

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/dialecttest"
	"github.com/parley-hq/parley/internal/sleep"
)

// lettaReader sends a message and follows its run. When the connection is cut it resumes after the last seq_id.
type lettaReader struct {
	mu   sync.Mutex
	run  string
	at   int64
	text strings.Builder
	stop string // the reason that the run ended with
	done chan struct{}
}

// sendLetta sends a message and follows its run until it ends.
func (s *sharedSession) sendLetta(t *testing.T, text string) *lettaReader {
	t.Helper()
	// With the otid every repetition is the same message.
	return s.followLetta(t, &lettaReader{done: make(chan struct{})}, dialecttest.LettaMessage(text, "letta-1"))
}

// joinLetta follows the running run from its start.
func (s *sharedSession) joinLetta(t *testing.T) *lettaReader {
	t.Helper()
	run := field(t, s.get("/v1/runs?conversation_id="+s.id+"&active=true"), "0.id")
	return s.followLetta(t, &lettaReader{run: run, done: make(chan struct{})}, "")
}

// followLetta reads the run of first, or the reader's run, until it ends.
func (s *sharedSession) followLetta(t *testing.T, l *lettaReader, first string) *lettaReader {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	url := "http://" + s.addr
	go func() {
		defer close(l.done)
		for ctx.Err() == nil {
			path, body := "/v1/conversations/"+s.id+"/messages", first
			if l.run != "" {
				path, body = "/v1/runs/"+l.run+"/stream", fmt.Sprintf(`{"starting_after":%d}`, l.at)
			}
			if l.once(ctx, url+path, body) {
				return
			}
			sleep.For(ctx, 20*time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-l.done
	})
	return l
}

// once reads one stream; it reports whether the run has ended.
func (l *lettaReader) once(ctx context.Context, url, body string) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return true
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(text), "data: ")
		if !ok || data == "[DONE]" {
			if ok && l.stop != "" {
				return true
			}
			continue
		}
		var f dialecttest.LettaFrame
		if json.Unmarshal([]byte(data), &f) != nil {
			continue
		}
		l.mu.Lock()
		if f.Run != "" {
			l.run = f.Run
		}
		switch f.Type {
		case "assistant_message":
			l.text.WriteString(f.Content)
		case "stop_reason":
			l.stop = f.Stop
		}
		if f.At > 0 {
			l.at = f.At
		}
		l.mu.Unlock()
	}
}

// confirm waits until the server has read all pongs of the client so far, and notes
// how much text they confirm.
func (n *nemoClient) confirm(t testing.TB) {
	t.Helper()
	before := 0
	if len(n.confirmed) > 0 {
		before = n.confirmed[len(n.confirmed)-1].connection
	}
	connection := n.until(t, 0, func(f nemoFrame) bool { return f.connection > before && f.Content.Text != nil }).connection
	n.mu.Lock()
	from, has := len(n.frames), len(n.text(connection))
	n.mu.Unlock()
	n.write(t, `{"type":"nonsense","conversation_id":"nowhere"}`)
	n.until(t, from, func(f nemoFrame) bool { return f.Type == "error_message" && f.Conversation == "nowhere" })
	n.confirmed = append(n.confirmed, nemoConfirmed{connection, has})
}

// nemoConfirmed is the least number of bytes that a connection has confirmed.
type nemoConfirmed struct{ connection, bytes int }

// text returns the text that arrived on a connection; the caller holds mu.
func (n *nemoClient) text(connection int) (s string) {
	for _, f := range n.frames {
		if f.connection == connection && f.Type == "system_response_message" && f.Content.Text != nil {
			s += *f.Content.Text
		}
	}
	return s
}

// checkText compares the text of all connections with want. After a kill the server
// may repeat text that the client had not confirmed, and no other text.
func (n *nemoClient) checkText(t testing.TB, want string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	has, least := 0, 0 // bytes of want that arrived, and that were confirmed
	for connection := 1; connection <= n.frames[len(n.frames)-1].connection; connection++ {
		s, begin := n.text(connection), has
		for ; begin >= least && !strings.HasPrefix(want[begin:], s); begin-- {
		}
		if begin < least {
			t.Errorf("nemo: connection %d continues after %d bytes, %d of them confirmed, with %q", connection, has, least, clip(s))
			return
		}
		for _, confirmed := range n.confirmed {
			if confirmed.connection == connection {
				least = begin + confirmed.bytes
			}
		}
		has = begin + len(s)
	}
	if has != len(want) {
		t.Errorf("nemo has %d bytes of %d", has, len(want))
	}
}

// TestEveryDialectResumesAfterAKill kills the server while an answer is being
// written, with a reader in each dialect. Each reader reconnects in the way of its
// protocol and has the text once.
func TestEveryDialectResumesAfterAKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := startShared(t, data)
	s.nemo = s.connectNemo(t)
	stream, events := s.followVertesia(t), s.followX1(t)
	native, ctx := s.followNative(t)
	raw := newReader("raw")
	rawCtx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	url := s.url
	wg.Go(func() { _ = raw.watchRaw(rawCtx, url, "shared") })
	t.Cleanup(func() { stop(); wg.Wait() })
	letta := s.sendLetta(t, "/stream 600 50")
	turn, err := native.until(ctx, ofType("turn.started"))
	if err != nil {
		t.Fatal(err)
	}
	pages := []*pageStream{s.resumePage(t, "aisdk", string(turn.Turn)), s.resumePage(t, "agui", string(turn.Turn))}
	for kill := range 2 {
		native.pieces(ctx, t, 40*(kill+1))
		s.nemo.confirm(t)
		s.restart(data)
	}
	if _, err := native.until(ctx, mainDone); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.until(ctx, mainDone); err != nil {
		t.Fatal(err)
	}
	select {
	case <-letta.done:
	case <-ctx.Done():
		t.Fatalf("letta's run did not end: %q", clip(letta.text.String()))
	}
	var words []string
	for i := range 600 {
		words = append(words, fmt.Sprintf("tok%d", i+1))
	}
	want := strings.Join(words, " ")
	said := []string{line("user", "/stream 600 50"), line("agent", want)}

	for _, r := range []*reader{native, raw} {
		r.mu.Lock()
		compare(t, r.name, messagesIn(r.events), said)
		for _, f := range r.faults {
			t.Error(f)
		}
		r.mu.Unlock()
	}
	if got := letta.text.String(); got != want || letta.stop != "end_turn" {
		t.Errorf("letta's stream ended as %s with %d bytes of %d: %q", letta.stop, len(got), len(want), got)
	}
	compare(t, "letta's list", s.lettaList(), said)
	for _, p := range pages {
		last, _ := p.end(t)
		if got := pageText(p); got != want || last.Type != "finish" && last.Type != "RUN_FINISHED" {
			t.Errorf("%s ended as %s with %d bytes of %d: %d %s", p.name, last.Raw, len(got), len(want), p.status, p.body)
		}
	}
	compare(t, "agui's list", s.aguiList(), said)
	compare(t, "aisdk's list", s.aisdkList(), said)
	stream.until(t, 0, func(m vertesiaMessage) bool { return m.Type == dialecttest.VertesiaIdle })
	messages, _ := stream.all()
	compare(t, "vertesia's stream", messagesInVertesia(messages), said)
	chunks := ""
	for _, m := range messages {
		if m.Type == dialecttest.VertesiaChunk {
			chunks += m.Text
		}
	}
	if !strings.HasPrefix(want, chunks) || chunks == "" {
		t.Errorf("vertesia's chunks are not the beginning of the answer: %q", chunks)
	}
	compare(t, "vertesia's history", messagesInVertesia(s.vertesiaHistory()), said)
	s.nemo.until(t, 0, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
	s.nemo.checkText(t, want)
	events.fill(t, s)
	compare(t, "x1's history", messagesIn(events.list()), said)
	last := len(events.list())
	waitFor(t, func() bool { return len(s.archive()) >= last }, "the archive lacks events")
	compare(t, "x1's archive", messagesIn(s.archive()), said)
	if events.deltas == 0 {
		t.Error("x1 published no previews")
	}
}
