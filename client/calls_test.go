package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// inbox stores appended drafts like a server, once per client id.
type inbox struct {
	mu     sync.Mutex
	events []chat.Event
	byKey  map[string]int
}

func (b *inbox) take(r *http.Request) ([]chat.Event, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return b.append(raw)
}

func (b *inbox) append(raw []byte) (out []chat.Event, err error) {
	list, err := chat.ParseDrafts(raw)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range list {
		if i, ok := b.byKey[d.ClientID]; ok && d.ClientID != "" {
			out = append(out, b.events[i])
			continue
		}
		e := chat.Event{Session: "s-1", Seq: chat.Seq(len(b.events) + 1), At: chat.At(1e15), Type: d.Type, Turn: d.Turn, ClientID: d.ClientID, Payload: d.Payload, Body: d.Body}
		e.Actor = chat.Actor{Kind: chat.Agent, ID: "a"}
		if b.byKey == nil {
			b.byKey = map[string]int{}
		}
		b.byKey[d.ClientID] = len(b.events)
		b.events = append(b.events, e)
		out = append(out, e)
	}
	return out, nil
}

func (b *inbox) all() []chat.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events
}

// A call whose response is lost is repeated, and the message is stored once.
func TestSayStoresTheMessageOnce(t *testing.T) {
	var box inbox
	var count atomic.Int32
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls := count.Add(1)
		if calls == 1 {
			refuse(w, 503, chat.Errorf(chat.Unavailable, "later"))
			return
		}
		events, err := box.take(r)
		if err != nil {
			t.Error(err)
		}
		if calls < 4 {
			panic(http.ErrAbortHandler) // stored, but the response is lost
		}
		answer(w, 201, map[string]any{"events": events})
	}))
	e, err := c.Say(t.Context(), "s-1", "a < b & c")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(box.all()); n != 1 || count.Load() != 4 || e.Body.(chat.UserMessage).Text != "a < b & c" || e.ClientID == "" {
		t.Fatalf("%d events after %d calls: %+v", n, count.Load(), e)
	}
}

// Without a key a repeated call could store the draft twice, so the call is not repeated.
func TestAppendWithoutKeyIsNotRepeated(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	_, err := c.Append(t.Context(), "s-1", chat.NewDraft(chat.UserMessage{Text: "x"}))
	if !errors.Is(err, ErrUnreachable) || chat.CodeOf(err) != chat.Unavailable || calls.Load() != 1 {
		t.Fatalf("got %v after %d calls", err, calls.Load())
	}
}

func TestErrorsKeepTheirCode(t *testing.T) {
	lost := chat.Errorf(chat.Conflict, "somebody was first").With("answered_by", "ada")
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/answer"):
			refuse(w, 409, lost)
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusBadGateway)
		}
	}), func(o *Options) { o.Token, o.Retries = "secret", -1 })
	_, err := c.Answer(t.Context(), "s-1", "p-1", chat.Answer{Text: "x"})
	if e := chat.Public(err); e.Code != chat.Conflict || e.Details["answered_by"] != "ada" || e.Msg != lost.Msg {
		t.Errorf("a lost answer gave %+v", e)
	}
	_, err = c.Get(t.Context(), "s-1")
	if e := chat.Public(err); e.Code != chat.Unavailable || e.Details["retry_after"] != 7 {
		t.Errorf("a proxy's error gave %+v", e)
	}
	if _, err := New(Options{URL: "localhost:8000"}); chat.CodeOf(err) != chat.Invalid {
		t.Errorf("an address without http was taken: %v", err)
	}
}

func TestEventsReadAllPages(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		limit, _ := strconv.Atoi(q.Get("limit"))
		after, _ := strconv.Atoi(q.Get("after"))
		before, err := strconv.Atoi(q.Get("before"))
		if err != nil {
			before = 26
		}
		var events []chat.Event
		add := func(seq int) bool {
			events = append(events, chat.Event{Session: "s-1", Seq: chat.Seq(seq), At: 1e15, Type: "agent.status", Payload: []byte("{}")})
			return len(events) < limit
		}
		if q.Get("order") == "desc" {
			for seq := before - 1; seq > after && add(seq); seq-- {
			}
		} else {
			for seq := after + 1; seq < before && add(seq); seq++ {
			}
		}
		last := events[len(events)-1].Seq
		answer(w, 200, map[string]any{"events": events, "more": last != 25 && last != 1})
	}))
	for _, test := range []struct {
		q           EventQuery
		first, last chat.Seq
		count       int
	}{
		{EventQuery{Page: 10}, 1, 25, 25},
		{EventQuery{Page: 10, Desc: true}, 25, 1, 25},
		{EventQuery{Page: 10, After: 5, Limit: 12}, 6, 17, 12},
	} {
		var got []chat.Seq
		for e, err := range c.Events(t.Context(), "s-1", test.q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Seq)
		}
		if len(got) != test.count || got[0] != test.first || got[len(got)-1] != test.last {
			t.Errorf("%+v gave %v", test.q, got)
		}
	}
}

func TestSessionsReadAllPages(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := chat.SessionPage{Sessions: []chat.Session{{ID: "a"}, {ID: "b"}}, Next: "2"}
		if r.URL.Query().Get("cursor") == "2" {
			page = chat.SessionPage{Sessions: []chat.Session{{ID: "c"}}}
		}
		answer(w, 200, page)
	}))
	var ids string
	for s, err := range c.Sessions(t.Context(), SessionQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids += string(s.ID)
	}
	if ids != "abc" {
		t.Fatalf("got %q", ids)
	}
}

func TestUploadIsSentAgainFromItsStart(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 20_000)
	var calls atomic.Int32
	bodies := make(chan []byte, 1)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			io.CopyN(io.Discard, r.Body, 1000)
			panic(http.ErrAbortHandler)
		}
		got, _ := io.ReadAll(r.Body)
		bodies <- got
		answer(w, 201, Artifact{Path: r.URL.Path, MediaType: r.Header.Get("Content-Type"), Size: int64(len(got))})
	}))
	var done, total int64 // the transport has read the body before it answers
	a, err := c.Upload(t.Context(), "s-1", "files/ein Bild?.png", bytes.NewReader(body), UploadOptions{
		MediaType: "image/png", Size: int64(len(body)), Progress: func(d, n int64) { done, total = d, n },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-bodies; !bytes.Equal(got, body) || a.Path != "/parley/v1/sessions/s-1/artifacts/files/ein Bild?.png" || a.MediaType != "image/png" {
		t.Fatalf("%d of %d bytes arrived as %+v", len(got), len(body), a)
	}
	if done != int64(len(body)) || total != done {
		t.Errorf("progress ended at %d of %d", done, total)
	}
}

func TestTruncatedDownloadIsAnError(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/export"):
			fmt.Fprint(w, "{\"sequence\":1}\n{\"sequen")
		case strings.HasSuffix(r.URL.Path, "/verify"):
			fmt.Fprint(w, "{\"sessions\":1,\"events\":5}\n")
		default:
			fmt.Fprint(w, "half a tar")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	var out bytes.Buffer
	if n, err := c.Export(t.Context(), "s-1", &out, nil); err == nil || n != 1 {
		t.Errorf("a cut export gave %d events and %v", n, err)
	}
	if _, err := c.Backup(t.Context(), io.Discard, nil); err == nil {
		t.Error("a cut backup gave no error")
	}
	var last error
	for _, err := range c.Verify(t.Context()) {
		last = err
	}
	if last == nil {
		t.Error("a verification that did not finish gave no error")
	}
}

// Whoami asks for the caller of the client's credential, at a route that is not below /parley/v1.
func TestWhoami(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/auth/session" || r.Header.Get("Authorization") != "Bearer secret" {
			refuse(w, http.StatusUnauthorized, chat.Errorf(chat.Unauthenticated, "no"))
			return
		}
		answer(w, http.StatusOK, map[string]any{"actor": map[string]string{"kind": "user", "id": "ada", "name": "Ada"}, "workspace": "w", "scopes": []string{"user"}, "open": false})
	}), func(o *Options) { o.Token = "secret" })
	who, err := c.Whoami(t.Context())
	if err != nil || who.Actor.Name != "Ada" || !who.Actor.Same(chat.Actor{Kind: chat.User, ID: "ada"}) || who.Workspace != "w" || len(who.Scopes) != 1 || who.Open {
		t.Fatalf("%+v, %v", who, err)
	}
}
