package letta

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// query reads the values of an address; the first that is wrong is the error.
type query struct {
	values url.Values
	err    error
}

func newQuery(r *http.Request) *query { return &query{values: r.URL.Query()} }

func (q *query) has(key string) bool { return q.values.Get(key) != "" }

// text is a value; clients write null for none.
func (q *query) text(key string) string {
	if v := q.values.Get(key); v != "null" {
		return v
	}
	return ""
}

// texts is a value that is given several times.
func (q *query) texts(key string) []string { return q.values[key] }

func (q *query) limit(otherwise, most int) int {
	v := q.text("limit")
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		q.fail("limit=%q: it is a number from 1 to %d", clip(v), most)
		return otherwise
	}
	return n
}

// order is asc or desc; otherwise is what it means when it does not say.
func (q *query) order(otherwise string) string {
	switch v := q.text("order"); v {
	case "":
		return otherwise
	case "asc", "desc":
		return v
	default:
		q.fail("order=%q: it is asc or desc", clip(v))
		return otherwise
	}
}

func (q *query) ascending() bool { return q.order("desc") == "asc" }

func (q *query) flag(key string, otherwise bool) bool {
	v := q.text(key)
	if v == "" {
		return otherwise
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		q.fail("%s=%q: it is true or false", key, clip(v))
	}
	return b
}

// word is one of some values, or "".
func (q *query) word(key string, words ...string) string {
	v := q.text(key)
	for _, w := range words {
		if v == w || v == "" {
			return v
		}
	}
	q.fail("%s=%q is not one of %v", key, clip(v), words)
	return ""
}

// time is a moment, zero when none is given.
func (q *query) time(key string) time.Time {
	v := q.text(key)
	if v == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, v); err == nil {
			return t
		}
	}
	q.fail("%s=%q: it is a time as in 2026-01-31T12:00:00Z", key, clip(v))
	return time.Time{}
}

func (q *query) fail(format string, args ...any) {
	if q.err == nil {
		q.err = unfit(format, args...)
	}
}
