package native

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestRecordsOfSessionsHaveTheirPartition(t *testing.T) {
	w := newTestServer(t, func(o *Options) { o.Partition = func(chat.SessionID) int { return 2 } })
	single := newTestServer(t, nil)
	single.must("alice", "POST", "/parley/v1/sessions", `{"id":"elsewhere"}`)
	log := single.must("root", "GET", "/parley/v1/sessions/elsewhere/export", "")
	if got := single.must("alice", "GET", "/parley/v1/sessions/elsewhere", ""); strings.Contains(got, "partition") {
		t.Errorf("a single server has no partitions: %s", got)
	}
	for _, c := range []struct{ as, method, path, body string }{
		{"alice", "POST", "/parley/v1/sessions", `{"id":"s"}`},
		{"alice", "GET", "/parley/v1/sessions/s", ""},
		{"alice", "GET", "/parley/v1/sessions", ""},
		{"alice", "PATCH", "/parley/v1/sessions/s", `{"title":"A title"}`},
		{"alice", "POST", "/parley/v1/sessions/s/fork", `{"at":1}`},
		{"root", "POST", "/parley/v1/import", log},
	} {
		if got := w.must(c.as, c.method, c.path, c.body); !strings.Contains(got, `"partition":2`) {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
	}
}
