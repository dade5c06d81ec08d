package native

import (
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestPagesAreTheSameEvents: an answer that is joined from compressed pages has the same bytes as one that is not, at every
// boundary, in both orders, and while the session grows.
func TestPagesAreTheSameEvents(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	get := func(query, coding string) string {
		t.Helper()
		r := w.request("root", "GET", "/parley/v1/sessions/s/events?"+query, nil)
		r.Header.Set("Accept-Encoding", coding)
		res, err := w.HTTP.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body := io.Reader(res.Body)
		if res.StatusCode == 200 && coding == "gzip" {
			if body, err = gzip.NewReader(res.Body); err != nil {
				t.Fatal(query, err)
			}
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(query, err)
		}
		return fmt.Sprint(res.StatusCode, string(b))
	}
	last := 1
	add := func(n int) {
		drafts := make([]string, n)
		for i := range drafts {
			drafts[i] = say(fmt.Sprint("event ", last+i+1))
		}
		w.must("root", "POST", "/parley/v1/sessions/s/events", "["+strings.Join(drafts, ",")+"]")
		last += n
	}
	for _, n := range []int{254, 1, 1, 126, 1, 1, 300} {
		add(n)
		for _, query := range []string{
			"limit=1000", "limit=1000&order=desc", "limit=256", "limit=256&order=desc", "limit=300&after=5", "limit=300&order=desc&before=270",
			"limit=1000&after=127", "limit=1000&after=128", "limit=1000&after=129", "limit=1000&order=desc&before=385", "limit=1000&order=desc&before=386",
			"limit=1000&after=1000000", "limit=1000&types=user.message", "limit=257&before=400&after=100", "limit=257&before=400&after=100&order=desc",
		} {
			if packed, plain := get(query, "gzip"), get(query, "identity"); packed != plain {
				t.Fatalf("%s with %d events: %d bytes and %d: %.300s\n%.300s", query, last, len(packed), len(plain), packed, plain)
			}
		}
	}
	if n := len(w.dialect.pages.known); n == 0 {
		t.Error("no page is kept")
	}
	w.dialect.Erased("s")
	if p := &w.dialect.pages; len(p.known) > 0 || p.bytes != 0 || p.used.Len() > 0 {
		t.Errorf("%d pages with %d bytes are left of an erased session", len(p.known), p.bytes)
	}
}
