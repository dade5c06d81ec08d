package servertest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Send sends a request. path may be a whole URL; body is JSON or empty; header
// has names and values in turn.
func (s *Server) Send(method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	url := path
	if !strings.HasPrefix(path, "http") {
		url = s.HTTP.URL + path
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.HTTP.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

// Call sends a request like Send and returns the status, the body and the header
// of the answer.
func (s *Server) Call(method, path, body string, header ...string) (int, string, http.Header) {
	s.t.Helper()
	res := s.Send(method, path, body, header...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

// Events returns the stored events of a session, or those of some types. A
// session that does not exist has none.
func (s *Server) Events(id chat.SessionID, types ...string) (events []chat.Event) {
	s.t.Helper()
	for e, err := range s.Sessions.Events(context.Background(), chat.Trusted, id, chat.Range{Types: types}) {
		if chat.CodeOf(err) == chat.NotFound {
			return nil
		}
		if err != nil {
			s.t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// Until waits until a session exists and has n events of a type.
func (s *Server) Until(id chat.SessionID, typ string, n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := s.Sessions.Get(ctx, chat.Trusted, id); err == nil {
			break
		}
	}
	var failure error
	for batch, err := range s.Sessions.Watch(ctx, chat.Trusted, id, core.Start{Cursor: &chat.Cursor{}}, nil) {
		if failure = err; err != nil {
			break
		}
		for _, e := range batch.Entries {
			if e.Label.Type != typ {
				continue
			}
			if n--; n <= 0 {
				return
			}
		}
	}
	s.t.Fatalf("session %s: %d more %s are missing: %v", id, n, typ, failure)
}
