package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/wire"
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
		return chat.Errorf(chat.Invalid, "the body does not fit: %s", problem(err)).Because(err)
	}
	return nil
}

func problem(err error) string {
	switch e := err.(type) {
	case *json.UnmarshalTypeError:
		if e.Field != "" {
			return e.Field + " cannot be a " + e.Value
		}
		return "it cannot be a " + e.Value
	case *json.SyntaxError:
		return "it is not valid JSON (" + e.Error() + ")"
	case *chat.Error:
		return e.Msg
	}
	return err.Error()
}

// query reads the values of a URL and remembers the first that is wrong.
type query struct {
	r   *http.Request
	err error
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
	s := q.r.URL.Query().Get(name)
	if len(s) > 1000 || strings.ToValidUTF8(s, "") != s {
		q.bad(name, s, "at most 1000 bytes of UTF-8")
	}
	return s
}

func (q *query) number(name string, least, most, otherwise uint64) uint64 {
	s := q.r.URL.Query().Get(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < least || n > most {
		q.bad(name, s, "a whole number from "+strconv.FormatUint(least, 10)+" to "+strconv.FormatUint(most, 10))
		return otherwise
	}
	return n
}

func (q *query) limit() int { return int(q.number("limit", 1, 1000, 100)) }

func (q *query) oneOf(name string, words ...string) string {
	s := q.r.URL.Query().Get(name)
	if s == "" {
		return ""
	}
	for _, w := range words {
		if s == w {
			return s
		}
	}
	q.bad(name, s, "one of "+strings.Join(words, ", "))
	return ""
}

// rangeOf reads which events are asked for.
func rangeOf(r *http.Request) (chat.Range, error) {
	q := query{r: r}
	most := uint64(chat.MaxSeq)
	rg := chat.Range{
		After: chat.Seq(q.number("after", 0, most, 0)), Before: chat.Seq(q.number("before", 0, most, 0)),
		Limit: q.limit(), MaxBytes: 8 << 20, Desc: q.oneOf("order", "asc", "desc") == "desc",
	}
	if s := q.text("types"); s != "" {
		rg.Types = strings.Split(s, ",")
	}
	if r.URL.Query().Has("workstream") {
		w := q.text("workstream")
		if w == "main" {
			w = ""
		}
		rg.Workstream = &w
	}
	return rg, q.err
}

// startOf reads where a stream begins. Last-Event-ID beats after, because a
// browser repeats the URL it was given when it comes back.
func startOf(r *http.Request) (chat.Start, error) {
	text, ok := r.Header.Get("Last-Event-ID"), true
	if text == "" {
		text, ok = r.URL.Query().Get("after"), r.URL.Query().Has("after")
	}
	if !ok {
		return chat.Start{}, nil
	}
	c, err := chat.ParseCursor(text)
	if err != nil {
		return chat.Start{}, err
	}
	return chat.Start{Cursor: &c}, nil
}

// previews reads one piece, an array, or one per line.
func parsePreviews(b []byte) ([]chat.Preview, error) {
	b = bytes.TrimSpace(b)
	var bodies []previewBody
	if len(b) > 0 && b[0] == '[' {
		if err := decode(b, &bodies); err != nil {
			return nil, err
		}
	} else {
		dec := json.NewDecoder(bytes.NewReader(b))
		for {
			var p previewBody
			err := dec.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, chat.Errorf(chat.Invalid, "not a preview: %s", problem(err)).Because(err)
			}
			bodies = append(bodies, p)
		}
	}
	if len(bodies) == 0 {
		return nil, chat.Errorf(chat.Invalid, "there is nothing to show: send {block, offset, text}")
	}
	out := make([]chat.Preview, len(bodies))
	for i, p := range bodies {
		out[i] = p.preview()
	}
	return out, nil
}
