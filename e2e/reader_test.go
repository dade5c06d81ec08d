// Test support: readers of the native event stream.

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// reader collects what one reader of a session sees. It reports every loss, repetition
// or wrong order as a fault.
type reader struct {
	name string

	mu      sync.Mutex
	events  []chat.Event
	blocks  map[chat.BlockID]string // the shown text of open blocks
	shown   int                     // previews
	faults  []string
	changed chan struct{} // closed and replaced at every event
}

func newReader(name string) *reader {
	return &reader{name: name, blocks: map[chat.BlockID]string{}, changed: make(chan struct{})}
}

func (r *reader) fault(format string, args ...any) {
	if len(r.faults) < 5 {
		r.faults = append(r.faults, r.name+": "+fmt.Sprintf(format, args...))
	}
}

func (r *reader) event(e chat.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if want := chat.Seq(len(r.events) + 1); e.Seq != want {
		r.fault("event %d came, %d was next", e.Seq, want)
	}
	r.events = append(r.events, e)
	if id := chat.FinishedBlock(e.Body); id != "" {
		text := ""
		switch b := e.Body.(type) {
		case chat.AgentText:
			text = b.Text
		case chat.AgentThinking:
			text = b.Text
		}
		if have := r.blocks[id]; !strings.HasPrefix(text, have) {
			r.fault("block %s ended as %q after %q was shown", id, clip(text), clip(have))
		}
		delete(r.blocks, id)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *reader) piece(p chat.Preview) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown++
	if have := len(r.blocks[p.Block]); p.Offset != have {
		r.fault("a piece of %s begins at %d, the reader has %d", p.Block, p.Offset, have)
	}
	r.blocks[p.Block] += p.Text
	close(r.changed)
	r.changed = make(chan struct{})
	if p.End != len(r.blocks[p.Block]) {
		r.fault("a piece of %s ends at %d, the reader has %d", p.Block, p.End, len(r.blocks[p.Block]))
	}
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// pieces waits until n previews were shown.
func (r *reader) pieces(ctx context.Context, t testing.TB, n int) {
	t.Helper()
	for {
		r.mu.Lock()
		shown, changed := r.shown, r.changed
		r.mu.Unlock()
		if shown >= n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%d pieces, want %d: %v", shown, n, context.Cause(ctx))
		}
	}
}

func ofType(typ string) func(chat.Event) bool {
	return func(e chat.Event) bool { return e.Type == typ }
}

// until waits for an event.
func (r *reader) until(ctx context.Context, match func(chat.Event) bool) (chat.Event, error) {
	for from := 0; ; {
		r.mu.Lock()
		events, changed := r.events, r.changed
		r.mu.Unlock()
		for ; from < len(events); from++ {
			if match(events[from]) {
				return events[from], nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return chat.Event{}, context.Cause(ctx)
		}
	}
}

// awaitMatch waits for a message that matches and is not among the first from messages. all returns the messages so far, and a
// channel that is closed when there are more.
func awaitMatch[T any](t testing.TB, from int, all func() ([]T, chan struct{}), match func(T) bool) T {
	t.Helper()
	late := time.After(60 * time.Second)
	for {
		messages, changed := all()
		for ; from < len(messages); from++ {
			if match(messages[from]) {
				return messages[from]
			}
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("no such message; the last were %+v", messages[max(0, len(messages)-4):])
		}
	}
}

// watchClient reads with the Go client, which resumes automatically.
func (r *reader) watchClient(ctx context.Context, c *client.Client, id chat.SessionID) error {
	for f, err := range c.Watch(ctx, id, client.WatchOptions{After: "0"}) {
		switch {
		case err != nil:
			return err
		case f.Event != nil:
			r.event(*f.Event)
		case f.Preview != nil:
			r.piece(*f.Preview)
		}
	}
	return nil
}

// watchRaw reads the event stream like a browser: it reconnects with the id of the last
// frame.
func (r *reader) watchRaw(ctx context.Context, url string, id chat.SessionID) error {
	transport := &http.Transport{DisableKeepAlives: true}
	last := "0"
	for ctx.Err() == nil {
		err := r.once(ctx, &http.Client{Transport: transport}, url+"/parley/v1/sessions/"+string(id)+"/stream", &last)
		if chat.CodeOf(err) == chat.Gone || chat.CodeOf(err) == chat.Invalid {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond): // a browser waits before it reconnects
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

func (r *reader) once(ctx context.Context, c *http.Client, url string, last *string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Last-Event-ID", *last)
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode == http.StatusGone || res.StatusCode == http.StatusBadRequest {
			return chat.Errorf(chat.Gone, "%d %s", res.StatusCode, b)
		}
		return errors.New(string(b))
	}
	var kind, at, data string
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err // an incomplete frame is dropped
		}
		switch k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); k {
		case "event":
			kind = v
		case "id":
			at = v
		case "data":
			data = v
		case "":
			switch kind {
			case "event":
				var e chat.Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					return err
				}
				r.event(e)
			case "preview":
				var p chat.Preview
				if err := json.Unmarshal([]byte(data), &p); err != nil {
					return err
				}
				r.piece(p)
			}
			if at != "" {
				*last = at
			}
			kind, at, data = "", "", ""
		}
	}
}
