// Test support: a Vertesia reader for the cross-dialect tests.

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

// vertesiaMessage is one compact message of the Vertesia stream.
type vertesiaMessage = dialecttest.VertesiaMessage

func messagesInVertesia(messages []vertesiaMessage) (list []string) {
	for _, m := range messages {
		if m.Line != "" && m.Line != "main" {
			continue
		}
		switch m.Type {
		case dialecttest.VertesiaQuestion:
			list = append(list, line("user", m.Text))
		case dialecttest.VertesiaAnswer:
			list = append(list, line("agent", m.Text))
		}
	}
	return list
}

// vertesiaHistory returns the messages that GET updates lists.
func (s *sharedSession) vertesiaHistory() []vertesiaMessage {
	s.t.Helper()
	var page struct {
		Messages []vertesiaMessage `json:"messages"`
	}
	if err := json.Unmarshal([]byte(s.get("/api/v1/agents/"+s.id+"/updates")), &page); err != nil {
		s.t.Fatal(err)
	}
	return page.Messages
}

// vertesiaReader follows the stream. It reconnects with the timestamp of the last
// message.
type vertesiaReader struct {
	mu       sync.Mutex
	messages []vertesiaMessage
	faults   []string
	changed  chan struct{}
}

func (s *sharedSession) followVertesia(t *testing.T) *vertesiaReader {
	t.Helper()
	v := &vertesiaReader{changed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	address := "http://" + s.addr + "/api/v1/agents/" + s.id + "/stream"
	go func() {
		defer close(done)
		for since := 0.0; ctx.Err() == nil; sleep.For(ctx, 20*time.Millisecond) {
			v.once(ctx, fmt.Sprintf("%s?since=%.3f", address, since), &since)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		for _, f := range v.faults {
			t.Errorf("vertesia: %s", f)
		}
	})
	return v
}

func (v *vertesiaReader) once(ctx context.Context, url string, since *float64) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return
	}
	res, err := client.Do(r)
	if err != nil {
		return
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(text), "data: ")
		if !ok {
			continue
		}
		var m vertesiaMessage
		err = json.Unmarshal([]byte(data), &m)
		v.mu.Lock()
		if err != nil {
			v.faults = append(v.faults, err.Error()+": "+data)
		}
		if m.At <= *since {
			v.faults = append(v.faults, fmt.Sprintf("%.3f came after %.3f", m.At, *since))
		}
		*since = m.At
		v.messages = append(v.messages, m)
		close(v.changed)
		v.changed = make(chan struct{})
		v.mu.Unlock()
	}
}

func (v *vertesiaReader) all() ([]vertesiaMessage, chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.messages, v.changed
}

// until waits for a message that matches and is not among the first from messages.
func (v *vertesiaReader) until(t testing.TB, from int, match func(vertesiaMessage) bool) vertesiaMessage {
	t.Helper()
	return awaitMatch(t, from, v.all, match)
}
