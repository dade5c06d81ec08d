package native

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// TestMessagesRoute: the route passes the query on, and refuses an invalid one.
func TestMessagesRoute(t *testing.T) {
	var asked MessageQuery
	opt := Options{
		Sessions: exactIDs{},
		Caller:   func(*http.Request) (chat.Caller, error) { return chat.Trusted, nil },
		Messages: func(_ context.Context, _ chat.Caller, id chat.SessionID, q MessageQuery) (any, error) {
			asked = q
			if id != "s-1" {
				return nil, chat.Errorf(chat.NotFound, "no such session")
			}
			return messagesPage{More: true}, nil
		},
	}
	get := func(opt Options, path string) *httptest.ResponseRecorder {
		mux := http.NewServeMux()
		for _, r := range New(opt).Routes() {
			mux.Handle(r.Pattern, r.Handler)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/parley/v1/sessions/"+path, nil))
		return w
	}
	w := get(opt, "s-1/messages?after=3&before=message-x&limit=7&order=desc&workstream=w1")
	if w.Code != 200 || asked != (MessageQuery{After: "3", Before: "message-x", Limit: 7, Desc: true, Workstream: "w1"}) || !strings.Contains(w.Body.String(), `"more":true`) {
		t.Errorf("%d %s %+v", w.Code, w.Body, asked)
	}
	if get(opt, "s-1/messages"); asked != (MessageQuery{Limit: 100}) {
		t.Errorf("defaults: %+v", asked)
	}
	for path, code := range map[string]int{
		"s-1/messages?limit=0": 400, "s-1/messages?order=up": 400, "s-1/messages?workstream=a/b": 400, "s-2/messages": 404,
	} {
		if w := get(opt, path); w.Code != code {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	opt.Messages = nil
	if w := get(opt, "s-1/messages"); w.Code != 503 {
		t.Errorf("not offered: %d", w.Code)
	}
}

// exactIDs has sessions without aliases.
type exactIDs struct{ sessions }

func (exactIDs) Resolve(_ context.Context, _ chat.Caller, id chat.SessionID) (chat.SessionID, error) {
	return id, nil
}
