package letta

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// owner is the caller of all requests to an open server.
var owner = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeUser, chat.ScopeAgent, chat.ScopeAdmin}}

// fill appends n messages to a session, half of them of the agent.
func fill(tb testing.TB, w *testServer, id chat.SessionID, n int) (want []string) {
	tb.Helper()
	ctx := context.Background()
	const chunk = 500
	for i := 0; i < n; i += chunk {
		var drafts []chat.Draft
		for j := i; j < min(n, i+chunk); j++ {
			text := fmt.Sprint("message ", j)
			var body chat.Body = chat.UserMessage{Text: text}
			if j%2 == 1 {
				body = chat.AgentText{Text: text}
			}
			drafts = append(drafts, chat.NewDraft(body))
			want = append(want, text)
		}
		if _, err := w.Sessions.Append(ctx, owner, id, drafts); err != nil {
			tb.Fatal(err)
		}
	}
	return want
}

// pages reads a list to its end as the clients do: after the last id of each page, or before the first.
func pages(w *testServer, path, from string) (texts []string, n int) {
	w.t.Helper()
	cursor := ""
	for {
		page := get[[]frame](w, "GET", path+cursor, "")
		if n++; len(page) == 0 {
			return texts, n
		}
		var got []string
		for _, m := range page {
			got = append(got, fmt.Sprint(m.Content))
		}
		if from == "before" {
			texts = append(got, texts...)
			cursor = "&before=" + page[0].ID
		} else {
			texts = append(texts, got...)
			cursor = "&after=" + page[len(page)-1].ID
		}
	}
}

// A long list pages without a repeat or a gap, in both orders and directions. e2e/conformance does the same with the
// real client and 10 000 messages.
func TestPagesHaveNoGap(t *testing.T) {
	w := newTestServer(t, setup{})
	a := w.agent("")
	none := chat.NoAgent
	if _, err := w.Sessions.Update(t.Context(), owner, chat.SessionID(a), chat.SessionUpdated{Agent: &none}); err != nil {
		t.Fatal(err)
	}
	want := fill(t, w, chat.SessionID(a), 3000)
	back := slices.Clone(want)
	slices.Reverse(back)
	for _, c := range []struct {
		path string
		want []string
	}{
		{"/v1/conversations/" + a + "/messages?order=asc&limit=333", want},
		{"/v1/conversations/" + a + "/messages?order=desc&limit=333", back},
		{"/v1/conversations/" + a + "/messages?limit=1000", back},
		{"/v1/agents/" + a + "/messages?order=asc&limit=333", want},
	} {
		if got, n := pages(w, c.path, "after"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d messages in %d pages", c.path, len(got), n)
		}
	}
	// From the end back to the beginning.
	last := get[[]frame](w, "GET", "/v1/conversations/"+a+"/messages?limit=1", "")[0].ID
	var got []string
	for cursor := last; ; {
		page := get[[]frame](w, "GET", "/v1/conversations/"+a+"/messages?order=asc&limit=700&before="+cursor, "")
		if len(page) == 0 {
			break
		}
		var texts []string
		for _, m := range page {
			texts = append(texts, m.Content.(string))
		}
		got, cursor = append(texts, got...), page[0].ID
	}
	if !slices.Equal(got, want[:len(want)-1]) {
		t.Errorf("backwards: %d messages", len(got))
	}
	// The agent's list gives the newest, the oldest of them first, and ends there.
	newest, n := pages(w, "/v1/agents/"+a+"/messages?limit=100", "after")
	if !slices.Equal(newest, want[len(want)-100:]) || n != 2 {
		t.Errorf("newest: %v in %d pages", newest, n)
	}
	older, _ := pages(w, "/v1/agents/"+a+"/messages?limit=900", "before")
	if !slices.Equal(older, want) {
		t.Errorf("older and older: %d messages", len(older))
	}
}

// An after or before that is not in the list is refused.
func TestUnknownMarksAreRefused(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a, b := w.agent(""), w.agent("")
	w.say(a, "mine")
	other := w.say(b, "other").Messages[0].ID
	for _, id := range []string{other, "nonsense", "3", "message-zz", "message-00000000-0000-4000-8000-000000000000"} {
		for _, order := range []string{"asc", "desc"} {
			for _, side := range []string{"after", "before"} {
				code, body := w.do("GET", "/v1/conversations/"+a+"/messages?order="+order+"&"+side+"="+id, "")
				if code != http.StatusNotFound || strings.Contains(body, "after") && side == "before" || strings.Contains(body, "before") && side == "after" {
					t.Errorf("%s %s=%s: %d %s", order, side, id, code, body)
				}
			}
		}
	}
}

// The list of an agent has the messages of all its conversations.
func TestListOfAnAgentMergesItsConversations(t *testing.T) {
	w := newTestServer(t, setup{})
	a := w.agent("")
	paths := []string{"/v1/agents/" + a + "/messages"}
	for range 3 {
		paths = append(paths, "/v1/conversations/"+get[object](w, "POST", "/v1/conversations/?agent_id="+a, "{}")["id"].(string)+"/messages")
	}
	var want []string
	for i := range 24 {
		text := fmt.Sprint("m", i)
		get[answer](w, "POST", paths[i*7%len(paths)], message(text, `,"streaming":false`))
		want = append(want, text, "You said: "+text)
	}
	if got, _ := pages(w, "/v1/agents/"+a+"/messages?order=asc&limit=5", "after"); !slices.Equal(got, want) {
		t.Errorf("asc: %v", got)
	}
	if got, _ := pages(w, "/v1/agents/"+a+"/messages?limit=5", "before"); !slices.Equal(got, want) {
		t.Errorf("back: %v", got)
	}
	if got := get[[]any](w, "GET", "/v1/agents/"+a+"/messages?conversation_id=default", ""); len(got) != 12 {
		t.Errorf("the default one alone has %d", len(got))
	}
}

// countingWriter is a response that counts its bytes.
type countingWriter struct {
	header http.Header
	n      int
}

func (q *countingWriter) Header() http.Header         { return q.header }
func (q *countingWriter) WriteHeader(int)             {}
func (q *countingWriter) Write(b []byte) (int, error) { q.n += len(b); return len(b), nil }

// cpuTime is the processor time of this process. Other processes do not change it.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// listPages requests a page in a loop.
func listPages(b *testing.B, w *testServer, r *http.Request) {
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		out := &countingWriter{header: http.Header{}}
		if err := w.dialect.handle(asJSON((*request).listConversationMessages))(out, r, owner); err != nil || out.n < 100_000 {
			b.Fatal(err, out.n)
		}
	}
	b.ReportMetric((cpuTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// The last 1000 messages of a conversation of 100 000, as JSON; the aim is 30 ms.
func BenchmarkListLast1000(b *testing.B) {
	w := newTestServer(b, setup{})
	sess, _, err := w.Sessions.Create(b.Context(), owner, chat.NewSession{ID: "long", Agent: chat.NoAgent})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, w, sess.ID, 100_000)
	r := httptest.NewRequest("GET", "/v1/conversations/long/messages?limit=1000", nil)
	r.SetPathValue("conversation", "long")
	listPages(b, w, r)
}

// A page in the middle costs no more than one at the end.
func BenchmarkListMiddle1000(b *testing.B) {
	w := newTestServer(b, setup{})
	if _, _, err := w.Sessions.Create(b.Context(), owner, chat.NewSession{ID: "long", Agent: chat.NoAgent}); err != nil {
		b.Fatal(err)
	}
	fill(b, w, "long", 100_000)
	q, err := w.dialect.request(b.Context(), owner)
	if err != nil {
		b.Fatal(err)
	}
	middle := chat.Seq(50_000)
	e, err := q.event("long", middle)
	for ; err == nil && e.Type != (chat.UserMessage{}).Type(); middle++ {
		e, err = q.event("long", middle)
	}
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/v1/conversations/long/messages?limit=1000&after="+llm.MessageID(e.ID, 0), nil)
	r.SetPathValue("conversation", "long")
	listPages(b, w, r)
}
