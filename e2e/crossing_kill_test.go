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

	"github.com/parley-hq/parley/internal/freeport"
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
func (h *hall) sendLetta(t *testing.T, text string) *lettaReader {
	t.Helper()
	l := &lettaReader{done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	url := "http://" + h.addr
	go func() {
		defer close(l.done)
		// With the otid every repetition is the same message.
		first := `{"messages":[{"role":"user","content":` + quoted(text) + `,"otid":"letta-1"}],"streaming":true,"stream_tokens":true,"background":true}`
		for ctx.Err() == nil {
			path, body := "/v1/conversations/"+h.id+"/messages", first
			if l.run != "" {
				path, body = "/v1/runs/"+l.run+"/stream", fmt.Sprintf(`{"starting_after":%d}`, l.at)
			}
			if l.once(ctx, url+path, body) {
				return
			}
			pause(ctx, 20*time.Millisecond)
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
		var f struct {
			Type    string `json:"message_type"`
			Run     string `json:"run_id"`
			At      int64  `json:"seq_id"`
			Content string `json:"content"`
			Stop    string `json:"stop_reason"`
		}
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

// answered waits until the server has read what the client has answered for, and
// notes how much of the text that is.
func (n *nemoEar) answered(t testing.TB) {
	t.Helper()
	before := 0
	if len(n.sure) > 0 {
		before = n.sure[len(n.sure)-1].life
	}
	life := n.until(t, 0, func(f nemoFrame) bool { return f.life > before && f.Content.Text != nil }).life
	n.mu.Lock()
	from, has := len(n.frames), len(n.text(life))
	n.mu.Unlock()
	n.write(t, `{"type":"nonsense","conversation_id":"nowhere"}`)
	n.until(t, from, func(f nemoFrame) bool { return f.Type == "error_message" && f.Conversation == "nowhere" })
	n.sure = append(n.sure, nemoSure{life, has})
}

// nemoSure is how much of its text a connection has surely answered for.
type nemoSure struct{ life, bytes int }

// text is what a connection brought; the caller holds mu.
func (n *nemoEar) text(life int) (s string) {
	for _, f := range n.frames {
		if f.life == life && f.Type == "system_response_message" && f.Content.Text != nil {
			s += *f.Content.Text
		}
	}
	return s
}

// exact puts the frames of a NeMo client together, to want. A server that is
// killed sends again what the client had not answered for yet, and nothing else:
// the protocol has no other means.
func (n *nemoEar) exact(t testing.TB, want string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	has, least := 0, 0 // bytes of want that it has, and that it has answered for
	for life := 1; life <= n.frames[len(n.frames)-1].life; life++ {
		s, begin := n.text(life), has
		for ; begin >= least && !strings.HasPrefix(want[begin:], s); begin-- {
		}
		if begin < least {
			t.Errorf("nemo: connection %d goes on behind %d bytes, %d of them answered for, with %q", life, has, least, clip(s))
			return
		}
		for _, sure := range n.sure {
			if sure.life == life {
				least = begin + sure.bytes
			}
		}
		has = begin + len(s)
	}
	if has != len(want) {
		t.Errorf("nemo has %d bytes of %d", has, len(want))
	}
}

// TestCrossingKill kills the server while an answer is being written, with a
// reader in each dialect. Each comes back by its own means and has the text once.
func TestCrossingKill(t *testing.T) {
	t.Parallel()
	data, bus := t.TempDir(), freeport.Addr(t)
	h := &hall{process: serveAt(t, freeport.Addr(t), data, "--nats", bus), id: "hall", bus: bus}
	h.post("/parley/v1/sessions", `{"id":"hall"}`)
	h.nc = natsOf(t, bus)
	h.nemo = h.listenNemo(t)
	stream, bits := h.listenVertesia(t), h.listenX1(t)
	native, ctx := h.listenNative(t)
	raw := newReader("raw")
	rawCtx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	url := h.url
	wg.Go(func() { _ = raw.watchRaw(rawCtx, url, "hall") })
	t.Cleanup(func() { stop(); wg.Wait() })
	letta := h.sendLetta(t, "/stream 200 50")
	for kill := range 2 {
		native.pieces(ctx, t, 40*(kill+1))
		h.nemo.answered(t)
		h.again(data)
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
	for i := range 200 {
		words = append(words, fmt.Sprintf("tok%d", i+1))
	}
	want := strings.Join(words, " ")
	said := []string{line("user", "/stream 200 50"), line("agent", want)}

	for _, r := range []*reader{native, raw} {
		r.mu.Lock()
		compare(t, r.name, spokenIn(r.events), said)
		for _, f := range r.faults {
			t.Error(f)
		}
		r.mu.Unlock()
	}
	if got := letta.text.String(); got != want || letta.stop != "end_turn" {
		t.Errorf("letta's stream ended as %s with %d bytes of %d: %q", letta.stop, len(got), len(want), got)
	}
	compare(t, "letta's list", h.lettaList(), said)
	stream.until(t, 0, func(m vertesiaMessage) bool { return m.Type == vertesiaIdle })
	messages, _ := stream.all()
	compare(t, "vertesia's stream", spokenInVertesia(messages), said)
	chunks := ""
	for _, m := range messages {
		if m.Type == vertesiaChunk {
			chunks += m.Text
		}
	}
	if !strings.HasPrefix(want, chunks) || chunks == "" {
		t.Errorf("vertesia's chunks are not the beginning of the answer: %q", chunks)
	}
	compare(t, "vertesia's history", spokenInVertesia(h.vertesiaHistory()), said)
	h.nemo.until(t, 0, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
	h.nemo.exact(t, want)
	bits.fill(t, h)
	compare(t, "x1's history", spokenIn(bits.list()), said)
	last := len(bits.list())
	waitFor(t, func() bool { return len(h.archive()) >= last }, "the archive lacks events")
	compare(t, "x1's archive", spokenIn(h.archive()), said)
	if bits.deltas == 0 {
		t.Error("x1 saw no text being written")
	}
}
