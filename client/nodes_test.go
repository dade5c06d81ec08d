package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// TestCallGoesToTheNextNode: a call that a node does not answer is sent to the next one. A call that cannot be repeated is, if it was
// certainly not sent.
func TestCallGoesToTheNextNode(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	busy, calls := atomic.Int64{}, atomic.Int64{}
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		busy.Add(1)
		refuse(w, http.StatusServiceUnavailable, chat.Errorf(chat.Unavailable, "no majority"))
	}))
	defer second.Close()
	third := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		answer(w, http.StatusOK, map[string]any{"stopped": true, "turn_id": "t-1", "session": map[string]any{"id": "s-1"}})
	}))
	defer third.Close()
	// A pause would take longer than the test.
	opt := Options{URL: down.URL + " , " + second.URL + "/," + third.URL, Backoff: Backoff{Min: time.Hour, Max: time.Hour}, Retries: -1}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(t.Context(), "s-1"); err != nil {
		t.Fatal(err)
	}
	if c.URL() != third.URL || busy.Load() != 1 || calls.Load() != 1 {
		t.Errorf("at %s after %d and %d calls", c.URL(), busy.Load(), calls.Load())
	}
	// The client stays at the node that answered.
	if _, err := c.Stop(t.Context(), "s-1", StopOptions{}); err != nil || calls.Load() != 2 {
		t.Errorf("%v, %d calls", err, calls.Load())
	}
	// A stop cannot be repeated: the second node may have done it.
	if c, err = New(opt); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Stop(t.Context(), "s-1", StopOptions{}); chat.CodeOf(err) != chat.Unavailable || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("a call that cannot be repeated: %v", err)
	}
	if busy.Load() != 2 || calls.Load() != 2 {
		t.Errorf("%d and %d calls", busy.Load(), calls.Load())
	}
}

func TestAddressesAreChecked(t *testing.T) {
	for _, bad := range []string{"http://a,", "http://a,b", ","} {
		if _, err := New(Options{URL: bad}); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
