package edge

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func toolkit(log *strings.Builder) *HTTP {
	return &HTTP{
		Dialect: "test", MaxBody: 100, Log: slog.New(slog.NewTextHandler(log, nil)),
		Caller: func(r *http.Request) (chat.Caller, error) {
			if r.Header.Get("Authorization") == "" {
				return chat.Caller{}, chat.Errorf(chat.Unauthenticated, "sign in")
			}
			return chat.Caller{}, nil
		},
	}
}

func TestHandlersAndErrors(t *testing.T) {
	var log strings.Builder
	x := toolkit(&log)
	read := func(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
		v := map[string]any{}
		if err := x.Read(r, &v); err != nil {
			return err
		}
		x.Send(w, r, http.StatusCreated, v)
		return nil
	}
	fail := func(err error) Handler {
		return func(http.ResponseWriter, *http.Request, chat.Caller) error { return err }
	}
	for name, c := range map[string]struct {
		handler   Handler
		body      string
		anonymous bool
		status    int
		contains  string
		header    string // name=value
		logged    bool
	}{
		"an answer":        {read, `{"a":1}`, false, 201, `{"a":1}`, "Cache-Control=no-store", false},
		"no body":          {read, ``, false, 201, `{}`, "Content-Type=application/json", false},
		"no caller":        {read, `{}`, true, 401, `"code":"unauthenticated"`, `WWW-Authenticate=Bearer realm="parley"`, false},
		"too large":        {read, `{"a":"` + strings.Repeat("x", 100) + `"}`, false, 413, "more than 100 bytes", "", false},
		"no JSON":          {read, `{`, false, 400, "cannot be decoded", "", false},
		"no UTF-8":         {read, "{\"a\":\"\xff\"}", false, 400, "UTF-8", "", false},
		"half a character": {read, `{"a":"\ud83d"}`, false, 400, "surrogate", "", false},
		"too deep":         {read, strings.Repeat("[", 65), false, 400, "nested", "", false},
		"a refusal":        {fail(chat.Errorf(chat.Conflict, "taken").With("id", "x")), ``, false, 409, `"details":{"id":"x"}`, "", false},
		"slow down":        {fail(chat.Errorf(chat.SlowDown, "later").With("retry_after", 7)), ``, false, 429, "later", "Retry-After=7", false},
		"unavailable":      {fail(chat.Errorf(chat.Unavailable, "full")), ``, false, 503, "full", "Retry-After=1", true},
		"a fault":          {fail(errors.New("secret cause")), ``, false, 500, "something went wrong", "", true},
	} {
		log.Reset()
		r := httptest.NewRequest("POST", "/", strings.NewReader(c.body))
		if !c.anonymous {
			r.Header.Set("Authorization", "Bearer x")
		}
		w := httptest.NewRecorder()
		x.Handle(c.handler).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.contains) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "secret cause") {
			t.Errorf("%s: the answer shows the cause: %s", name, w.Body)
		}
		if k, v, ok := strings.Cut(c.header, "="); ok && w.Header().Get(k) != v {
			t.Errorf("%s: %s is %q", name, k, w.Header().Get(k))
		}
		if logged := log.Len() > 0; logged != c.logged {
			t.Errorf("%s: logged: %q", name, log.String())
		}
	}
}

func TestQuery(t *testing.T) {
	for _, c := range []struct {
		query string
		read  func(q *Query) any
		want  any
		wrong string // part of the error
	}{
		{"", func(q *Query) any { return q.Limit(100, 1000) }, 100, ""},
		{"limit=7", func(q *Query) any { return q.Limit(100, 1000) }, 7, ""},
		{"limit=0", func(q *Query) any { return q.Limit(100, 1000) }, 100, "from 1 to 1000"},
		{"limit=1&limit=2", func(q *Query) any { return q.Limit(100, 1000) }, 100, "more than once"},
		{"after=18446744073709551615", func(q *Query) any { return q.Sequence("after", 0) }, chat.Seq(0), "after="},
		{"x=yes", func(q *Query) any { return q.Bool("x", false) }, false, "true or false"},
		{"x=true", func(q *Query) any { return q.Bool("x", false) }, true, ""},
		{"x=c", func(q *Query) any { return q.OneOf("x", "a", "b") }, "", "a, b"},
		{"x=b", func(q *Query) any { return q.OneOf("x", "a", "b") }, "b", ""},
		{"t=2026-01-31", func(q *Query) any { return q.Time("t").Year() }, 2026, ""},
		{"t=soon", func(q *Query) any { return q.Time("t").IsZero() }, true, "a time such as"},
		{"x=%ff", func(q *Query) any { return len(q.Text("x")) }, 1, "UTF-8"},
		{"x=%zz", func(q *Query) any { return q.Text("x") }, "", "escapes"},
		{"x=1&x=2", func(q *Query) any { return len(q.All("x")) }, 2, ""},
		{"limit=null", func(q *Query) any { q.Ignore("", "null"); return q.Limit(100, 1000) }, 100, ""},
		{"x=null&x=b", func(q *Query) any { q.Ignore("", "null"); return q.Text("x") }, "b", ""},
	} {
		q := NewQuery(httptest.NewRequest("GET", "/?"+c.query, nil))
		got := c.read(q)
		if got != c.want || (q.Err == nil) != (c.wrong == "") || q.Err != nil && !strings.Contains(q.Err.Error(), c.wrong) {
			t.Errorf("?%s: %v, %v", c.query, got, q.Err)
		}
		if q.Err != nil && chat.CodeOf(q.Err) != chat.Invalid {
			t.Errorf("?%s: the code is %s", c.query, chat.CodeOf(q.Err))
		}
	}
}

func TestEveryCodeHasAStatus(t *testing.T) {
	seen := map[int]chat.Code{}
	for _, code := range []chat.Code{
		chat.Invalid, chat.Unauthenticated, chat.Denied, chat.NotFound, chat.Conflict, chat.Gone, chat.TooLarge, chat.SlowDown, chat.Unavailable, chat.Internal,
	} {
		s := Status(code)
		if other, twice := seen[s]; twice {
			t.Errorf("%s and %s have the same status %d", code, other, s)
		}
		seen[s] = code
	}
}

func TestFormOfPlainText(t *testing.T) {
	var log strings.Builder
	x := toolkit(&log)
	x.EncodeError = func(err error, _ http.Header) (int, any) { return Status(chat.CodeOf(err)), Text(chat.Public(err).Msg) }
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Authorization", "Bearer x")
	w := httptest.NewRecorder()
	x.Handle(func(http.ResponseWriter, *http.Request, chat.Caller) error {
		return chat.Errorf(chat.Conflict, "The name is taken.")
	}).ServeHTTP(w, r)
	if w.Code != 409 || w.Body.String() != "The name is taken." || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %q %s", w.Code, w.Body, w.Header().Get("Content-Type"))
	}
}

func TestMessageThatIsTooLargeIsRefusedAsAMessage(t *testing.T) {
	for _, n := range []int{chat.MaxEvent - 500, chat.MaxEvent, 1 << 20} {
		d := chat.NewDraft(chat.UserMessage{Text: strings.Repeat("x", n)})
		if err := CheckSize(&d); chat.CodeOf(err) != chat.TooLarge || !strings.HasPrefix(chat.Public(err).Msg, "a message has at most") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	d := chat.NewDraft(chat.UserMessage{Text: "x"})
	if err := CheckSize(&d); err != nil {
		t.Error(err)
	}
}

// A compressed body is not text, and the answer says why.
func TestCompressedBodiesAreRefused(t *testing.T) {
	x := toolkit(&strings.Builder{})
	for encoding, want := range map[string]string{"gzip": "`Content-Encoding: gzip`", "": "UTF-8"} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("\x1f\x8b\x08\x00"))
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		if _, err := x.Body(r); chat.CodeOf(err) != chat.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", encoding, err)
		}
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader(`{}`))
	r.Header.Set("Content-Encoding", "utf-8") // some clients write that
	if b, err := x.Body(r); err != nil || string(b) != `{}` {
		t.Errorf("%s %v", b, err)
	}
}
