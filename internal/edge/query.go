package edge

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// Query reads the query values of a request. The first value that is wrong becomes Err; check it after all were read.
type Query struct {
	Err error

	values url.Values
}

// NewQuery reads the query of a request. Values that net/url would drop as malformed are refused.
func NewQuery(r *http.Request) *Query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &Query{values: values}
	if err != nil {
		q.Err = chat.Errorf(chat.Invalid, "the query of the address cannot be read: check its escapes").Because(err)
	}
	return q
}

// Ignore treats these values as not given. Clients of some protocols write null or an empty text for no value.
func (q *Query) Ignore(values ...string) {
	for name, list := range q.values {
		if list = slices.DeleteFunc(list, func(v string) bool { return slices.Contains(values, v) }); len(list) == 0 {
			delete(q.values, name)
		} else {
			q.values[name] = list
		}
	}
}

// Refuse records that a value is wrong; want says what is expected. Only the first one counts.
func (q *Query) Refuse(name, value, want string) {
	if q.Err == nil {
		q.Err = chat.Errorf(chat.Invalid, "%s=%q: %s", name, strings.ToValidUTF8(text.Clip(value, 80), "\uFFFD"), want).With("parameter", name)
	}
}

// Get returns a value and whether it was given. A value that is given twice is refused.
func (q *Query) Get(name string) (value string, given bool) {
	switch all := q.values[name]; len(all) {
	case 0:
		return "", false
	case 1:
		return all[0], true
	default:
		q.Refuse(name, all[1], "it is given more than once")
		return "", false
	}
}

// All returns all values of a name that may be given several times.
func (q *Query) All(name string) []string { return q.values[name] }

// Text returns a text of at most 1000 bytes, "" when it is not given.
func (q *Query) Text(name string) string { return q.TextUpTo(name, 1000) }

// TextUpTo returns a text of at most so many bytes, "" when it is not given.
func (q *Query) TextUpTo(name string, most int) string {
	s, _ := q.Get(name)
	if len(s) > most || !utf8.ValidString(s) {
		q.Refuse(name, s, fmt.Sprintf("it has at most %d bytes of UTF-8", most))
	}
	return s
}

// Number returns a whole number from least to most, otherwise when it is not given.
func (q *Query) Number(name string, least, most, otherwise uint64) uint64 {
	s, given := q.Get(name)
	if !given {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < least || n > most {
		q.Refuse(name, s, fmt.Sprintf("it must be a whole number from %d to %d", least, most))
		return otherwise
	}
	return n
}

// Limit returns the value limit: how many entries a page has at most.
func (q *Query) Limit(otherwise, most int) int {
	return int(q.Number("limit", 1, uint64(most), uint64(otherwise)))
}

// Sequence returns the number of an event, 0 when it is not given.
func (q *Query) Sequence(name string, least uint64) chat.Seq {
	return chat.Seq(q.Number(name, least, uint64(chat.MaxSeq), 0))
}

// Bool returns true or false, otherwise when it is not given.
func (q *Query) Bool(name string, otherwise bool) bool {
	s, given := q.Get(name)
	if !given {
		return otherwise
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		q.Refuse(name, s, "it must be true or false")
	}
	return v
}

// OneOf returns one of some values, "" when it is not given.
func (q *Query) OneOf(name string, values ...string) string {
	s, given := q.Get(name)
	if !given || slices.Contains(values, s) {
		return s
	}
	q.Refuse(name, s, "it must be one of "+strings.Join(values, ", "))
	return ""
}

// Time returns a moment, zero when it is not given.
func (q *Query) Time(name string) time.Time {
	s, given := q.Get(name)
	if !given {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	q.Refuse(name, s, "it must be a time such as 2026-01-31T12:00:00Z")
	return time.Time{}
}
