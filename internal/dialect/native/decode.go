package native

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// maxDepth bounds the nesting of JSON that comes in.
const maxDepth = 64

// body reads a request's JSON.
func (d *Dialect) body(r *http.Request) ([]byte, error) {
	b, err := wire.ReadBody(r, d.opt.MaxBody)
	if err != nil {
		return nil, bodyError(err, d.opt.MaxBody)
	}
	return b, checkJSON(b)
}

func bodyError(err error, limit int64) error {
	if errors.Is(err, wire.ErrTooLarge) {
		return chat.Errorf(chat.TooLarge, "the body has more than %d bytes; put large things into artifacts", limit)
	}
	return chat.Errorf(chat.Invalid, "the body could not be read").Because(err)
}

func checkJSON(b []byte) error {
	switch err := wire.CheckJSON(b, maxDepth); {
	case errors.Is(err, wire.ErrJSONDepth):
		return chat.Errorf(chat.Invalid, "the JSON is nested deeper than %d levels", maxDepth)
	case errors.Is(err, wire.ErrJSONSurrogate):
		return chat.Errorf(chat.Invalid, "the body has half of a character (a surrogate such as \\ud83d alone): send characters whole").Because(err)
	case err != nil:
		return chat.Errorf(chat.Invalid, "the body is not valid UTF-8").Because(err)
	}
	return nil
}

// decode reads JSON into a value; an empty body stands for an empty object.
func decode(b []byte, into any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return chat.Errorf(chat.Invalid, "the body does not fit: %s", chat.JSONProblem(err)).Because(err)
	}
	return nil
}

// query reads the values of a URL and remembers the first that is wrong.
type query struct {
	values url.Values
	err    error
}

// queryOf reads a request's query. Where net/url would drop what it cannot read,
// the request is refused: half a question gets the wrong answer.
func queryOf(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.err = chat.Errorf(chat.Invalid, "the query of the address cannot be read: check its escapes").Because(err)
	}
	return q
}

// get returns a value and whether it was given; given twice, nobody can tell
// which one is meant.
func (q *query) get(name string) (value string, given bool) {
	switch all := q.values[name]; len(all) {
	case 0:
		return "", false
	case 1:
		return all[0], true
	default:
		q.bad(name, all[1], "it is given more than once")
		return "", false
	}
}

func (q *query) bad(name, value, want string) {
	if q.err == nil {
		if len(value) > 80 {
			value = value[:80] + "…"
		}
		q.err = chat.Errorf(chat.Invalid, "%s=%q: %s", name, strings.ToValidUTF8(value, "\uFFFD"), want).With("parameter", name)
	}
}

func (q *query) text(name string) string {
	s, _ := q.get(name)
	if len(s) > 1000 || !utf8.ValidString(s) {
		q.bad(name, s, "it has at most 1000 bytes of UTF-8")
	}
	return s
}

func (q *query) number(name string, least, most, otherwise uint64) uint64 {
	s, given := q.get(name)
	if !given {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < least || n > most {
		q.bad(name, s, "it must be a whole number from "+strconv.FormatUint(least, 10)+" to "+strconv.FormatUint(most, 10))
		return otherwise
	}
	return n
}

func (q *query) limit() int { return int(q.number("limit", 1, 1000, 100)) }

func (q *query) oneOf(name string, words ...string) string {
	s, given := q.get(name)
	if !given {
		return ""
	}
	for _, w := range words {
		if s == w {
			return s
		}
	}
	q.bad(name, s, "it must be one of "+strings.Join(words, ", "))
	return ""
}

// sequence reads a number that an event can have.
func (q *query) sequence(name string, least uint64) chat.Seq {
	return chat.Seq(q.number(name, least, uint64(chat.MaxSeq), 0))
}

// rangeOf reads which events are asked for.
func rangeOf(r *http.Request) (chat.Range, error) {
	q := queryOf(r)
	rg := chat.Range{
		After: q.sequence("after", 0), Before: q.sequence("before", 1),
		Limit: q.limit(), MaxBytes: 8 << 20, Desc: q.oneOf("order", "asc", "desc") == "desc",
	}
	if s := q.text("types"); s != "" {
		rg.Types = strings.Split(s, ",")
		if slices.ContainsFunc(rg.Types, func(t string) bool { return chat.CheckType(t) != nil }) {
			q.bad("types", s, "give names of types, such as user.message, with one comma between them")
		}
	}
	if w, given := q.get("workstream"); given {
		if w == "main" {
			w = ""
		}
		if w != "" && chat.CheckWorkstream(w) != nil {
			q.bad("workstream", w, "give the id of a workstream, or main")
		}
		rg.Workstream = &w
	}
	return rg, q.err
}

// startOf reads where a stream begins. Last-Event-ID beats after, because a
// browser repeats the URL it was given when it comes back.
func startOf(r *http.Request) (chat.Start, error) {
	q := queryOf(r)
	text, given := q.get("after")
	if q.err != nil {
		return chat.Start{}, q.err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		text, given = last, true
	}
	if !given {
		return chat.Start{}, nil
	}
	c, err := chat.ParseCursor(text)
	if err != nil {
		return chat.Start{}, err
	}
	return chat.Start{Cursor: &c}, nil
}
