package native

import (
	"net/http"
	"strings"
	"testing"
)

// TestStreamIsTheSameInEveryCoding: readers of the live stream and readers of the history
// get the same frames in every content coding. Each live reader has a preview before the
// next is written.
func TestStreamIsTheSameInEveryCoding(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	codings := []string{"identity", "gzip", "zstd", "zstd"}
	open := func() []*frames {
		all := make([]*frames, len(codings))
		for i, coding := range codings {
			var res *http.Response
			all[i], res = w.follow("root", "/parley/v1/sessions/s/stream?after=0", w.HTTP.Client(), func(r *http.Request) { r.Header.Set("Accept-Encoding", coding) })
			if got := res.Header.Get("Content-Encoding"); got != coding && (got != "" || coding != "identity") {
				t.Fatalf("asked for %s, got %q", coding, got)
			}
		}
		return all
	}
	agree := func(readers []*frames) frame {
		t.Helper()
		first := readers[0].next()
		for i, f := range readers[1:] {
			if got := f.next(); got != first {
				t.Fatalf("%s: %+v, want %+v", codings[i+1], got, first)
			}
		}
		return first
	}

	live := open()
	agree(live) // session.started
	for _, text := range []string{"short", strings.Repeat("long and longer, ", 2000)} {
		w.must("root", "POST", "/parley/v1/sessions/s/events", say(text))
		if got := agree(live); !strings.Contains(got.data, text) {
			t.Fatalf("%+v", got)
		}
	}
	w.must("root", "POST", "/parley/v1/sessions/s/previews", `{"block":"b","offset":0,"text":"Hel"}`)
	if got := agree(live); got.event != "preview" || got.id != "3~b.3" {
		t.Fatalf("%+v", got)
	}

	late := open()
	for range 3 {
		agree(late)
	}
	if got := agree(late); got.event != "preview" || got.id != "3~b.3" {
		t.Fatalf("%+v", got)
	}
}
