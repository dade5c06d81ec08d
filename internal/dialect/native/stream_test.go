package native

import (
	"encoding/base64"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestStreamOfASlowReaderIsComplete: a reader of each content coding that stops reading for a while gets every event once and in
// order, and a stream that ends properly.
func TestStreamOfASlowReaderIsComplete(t *testing.T) {
	for _, coding := range []string{"identity", "gzip", "zstd"} {
		t.Run(coding, func(t *testing.T) {
			w := newTestServer(t, nil)
			w.create("root", `{"id":"s","agent":"none"}`)
			f, _ := w.follow("root", "/parley/v1/sessions/s/stream", w.HTTP.Client(), func(r *http.Request) { r.Header.Set("Accept-Encoding", coding) })
			texts := make([]string, 60)
			random := rand.NewChaCha8([32]byte{})
			for i := range texts {
				noise := make([]byte, 120<<10) // does not compress well
				_, _ = random.Read(noise)
				texts[i] = base64.StdEncoding.EncodeToString(noise)
				w.must("root", "POST", "/parley/v1/sessions/s/events", say(texts[i]))
			}
			for i, text := range texts {
				if got := f.next(); got.event != "event" || !strings.Contains(got.data, text) {
					t.Fatalf("frame %d is %s %.200s", i, got.event, got.data)
				}
			}
			w.must("root", "POST", "/parley/v1/sessions/s/events", say("small"))
			if got := f.next(); !strings.Contains(got.data, "small") {
				t.Fatalf("%+v", got)
			}
		})
	}
}

// TestIdleStreamIsPingedWithoutAGoroutine: the goroutine of an idle stream is the one that notices the end of the connection.
func TestIdleStreamIsPingedWithoutAGoroutine(t *testing.T) {
	w := newTestServer(t, func(o *Options) { o.Heartbeat = 20 * time.Millisecond })
	w.create("root", `{"id":"s","agent":"none"}`)
	f, _ := w.follow("root", "/parley/v1/sessions/s/stream", w.HTTP.Client(), func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	for range 3 {
		if got := f.next(); got.event != "ping" {
			t.Fatalf("%+v", got)
		}
	}
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(time.Minute); ; { // between two pings
		s := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(s, "hub.(*reader)") && strings.Contains(s, "watchPeer") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("goroutines of an idle stream:\n%s", s)
		}
		time.Sleep(time.Millisecond)
	}
}
