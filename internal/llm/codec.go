package llm

import (
	"bytes"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// object is a type with JSON fields. The same field list is used for decoding and
// encoding, so they cannot differ.
type object interface{ fields(*codec) }

// kept contains the JSON of a decoded object that its Go fields cannot represent, so
// that encoding a decoded object reproduces the input.
type kept struct {
	extra   []member // members with unknown keys
	spelled []member // fields whose JSON cannot be derived from their value; nil for an omitted field
}

// spell stores the original JSON of a field.
func (k *kept) spell(key string, raw json.RawMessage) {
	k.spelled = append(k.spelled, member{key, raw})
}

// spelling returns the stored JSON of a field.
func (k *kept) spelling(key string) (raw json.RawMessage, ok bool) {
	for _, m := range k.spelled {
		if m.key == key {
			return m.value, true
		}
	}
	return nil, false
}

type member struct {
	key   string
	value json.RawMessage
}

// need says whether a field may be absent or null.
type need int

const (
	required need = iota // must be present and not null
	optional             // may be absent, must not be null
	nullable             // may be absent or null
)

// codec decodes the fields of one object from in, or encodes them to out.
type codec struct {
	in      []member // the members to decode
	reading bool
	taken   uint64 // bit set of the members of in that were decoded
	path    string // path of the object, for errors
	err     error

	out   []byte
	first bool

	k *kept
}

func (f *codec) keep(k *kept) { f.k = k }

func (f *codec) fail(key, format string, args ...any) {
	if f.err == nil {
		at := join(f.path, key)
		e := chat.Errorf(chat.Invalid, format, args...)
		if at != "" {
			e.Msg = at + ": " + e.Msg
		}
		f.err = e.With("path", at)
	}
}

func join(path, key string) string {
	switch {
	case path == "" || key == "":
		return path + key
	case key[0] == '[':
		return path + key
	}
	return path + "." + key
}

// take returns the value of a key when decoding. ok is false if there is no value to
// decode: the field is absent or null, which is an error if the field requires a
// value.
func (f *codec) take(key string, n need) (raw json.RawMessage, ok bool) {
	if f.err != nil {
		return nil, false
	}
	for i, m := range f.in {
		if m.key != key {
			continue
		}
		f.taken |= 1 << i
		if string(m.value) != "null" {
			return m.value, true
		}
		if n != nullable {
			f.fail(key, "it cannot be null")
		}
		f.k.spell(key, m.value)
		return nil, false
	}
	if n == required {
		f.fail(key, "it is missing")
	}
	return nil, false
}

// empty encodes a field without a value: it omits the field, or writes the null or
// empty string that was decoded.
func (f *codec) empty(key string) {
	if raw, ok := f.k.spelling(key); ok && (string(raw) == "null" || string(raw) == `""`) {
		f.raw(key, string(raw))
	}
}

func (f *codec) key(key string) {
	if f.first {
		f.first = false
	} else {
		f.out = append(f.out, ',')
	}
	f.out = chat.AppendString(f.out, key)
	f.out = append(f.out, ':')
}

func (f *codec) raw(key, value string) {
	f.key(key)
	f.out = append(f.out, value...)
}

func (f *codec) text(key string, s *string, n need) {
	if f.reading {
		if raw, ok := f.take(key, n); ok && f.scan(key, raw, s, "a text") && *s == "" {
			f.k.spell(key, raw)
		}
		return
	}
	if *s == "" && n != required {
		f.empty(key)
		return
	}
	f.key(key)
	f.out = chat.AppendString(f.out, *s)
}

// scan decodes a plain value; what names its type in error messages.
func (f *codec) scan(key string, raw json.RawMessage, into any, what string) bool {
	if err := json.Unmarshal(raw, into); err != nil {
		f.fail(key, "it must be %s, not %s", what, kindOf(raw))
		return false
	}
	return true
}

// kindOf returns the name of a JSON value's type for error messages.
func kindOf(raw json.RawMessage) string {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "a list"
	case raw[0] == '"':
		return "a text"
	case raw[0] == 't' || raw[0] == 'f':
		return "true or false"
	case raw[0] == 'n':
		return "null"
	}
	return "a number"
}

// constant is a field with one permitted value.
func (f *codec) constant(key, value string, n need) {
	if !f.reading {
		if _, left := f.k.spelling(key); left {
			return
		}
		f.key(key)
		f.out = chat.AppendString(f.out, value)
		return
	}
	raw, ok := f.take(key, n)
	if !ok {
		if f.err == nil {
			f.k.spell(key, nil)
		}
		return
	}
	var s string
	if f.scan(key, raw, &s, "a text") && s != value {
		f.fail(key, "it must be %q", value)
	}
}

// word is a required string with a list of permitted values.
func (f *codec) word(key string, s *string, words ...string) {
	f.text(key, s, required)
	if !f.reading || f.err != nil {
		return
	}
	for _, w := range words {
		if *s == w {
			return
		}
	}
	f.fail(key, "%q is not one of %s", clip(*s), listed(words))
}

func (f *codec) role(key string, r *Role) {
	f.word(key, (*string)(r), "assistant", "user", "tool", "function", "system", "approval", "summary")
	if f.reading && *r == "function" {
		*r = Tool
	}
}

func (f *codec) status(key string, s *Status) { f.word(key, (*string)(s), "success", "error") }

func (f *codec) flag(key string, b *bool) {
	if f.reading {
		if raw, ok := f.take(key, required); ok {
			f.scan(key, raw, b, "true or false")
		}
		return
	}
	f.raw(key, strconv.FormatBool(*b))
}

func (f *codec) maybe(key string, b **bool) {
	if f.reading {
		if raw, ok := f.take(key, nullable); ok {
			var v bool
			f.scan(key, raw, &v, "true or false")
			*b = &v
		}
		return
	}
	if *b == nil {
		f.empty(key)
		return
	}
	f.raw(key, strconv.FormatBool(**b))
}

func (f *codec) number(key string, n *int) {
	if !f.reading {
		f.raw(key, strconv.Itoa(*n))
		return
	}
	raw, ok := f.take(key, required)
	if !ok {
		return
	}
	if err := json.Unmarshal(raw, n); err == nil {
		return
	}
	var v float64 // accept an integer that is written as 1.0
	if err := json.Unmarshal(raw, &v); err != nil || v != float64(int32(v)) {
		f.fail(key, "it must be a whole number, not %s", kindOf(raw))
		return
	}
	*n = int(v)
}

func (f *codec) time(key string, t *time.Time, n need) {
	if f.reading {
		if raw, ok := f.take(key, n); ok {
			var s string
			if !f.scan(key, raw, &s, "a text") {
				return
			}
			at, err := time.Parse(time.RFC3339Nano, s)
			if err != nil {
				f.fail(key, "%q is not a time like 2026-01-31T12:00:00Z", clip(s))
				return
			}
			*t = at
			f.k.spell(key, raw)
		}
		return
	}
	raw, _ := f.k.spelling(key)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if at, err := time.Parse(time.RFC3339Nano, s); err == nil && at.Equal(*t) {
			f.raw(key, string(raw))
			return
		}
	}
	if t.IsZero() {
		f.empty(key)
		return
	}
	f.raw(key, t.UTC().Format(`"2006-01-02T15:04:05.999999999Z07:00"`))
}

// anyText is a nullable string. A value of another type is decoded as its JSON text.
func (f *codec) anyText(key string, s *string) {
	if f.reading {
		raw, ok := f.take(key, nullable)
		switch {
		case ok && raw[0] != '"':
			*s = string(raw)
			f.k.spell(key, raw)
		case ok && f.scan(key, raw, s, "a text") && *s == "":
			f.k.spell(key, raw)
		}
		return
	}
	if raw, ok := f.k.spelling(key); ok && *s != "" && *s == string(raw) {
		f.raw(key, *s)
		return
	}
	f.text(key, s, nullable)
}

func (f *codec) texts(key string, list *[]string) {
	if f.reading {
		if raw, ok := f.take(key, nullable); ok {
			items, ok := f.items(key, raw)
			if !ok {
				return
			}
			*list = make([]string, len(items))
			for i, item := range items {
				f.scan(key+index(i), item, &(*list)[i], "a text")
				if string(item) == "null" {
					f.fail(key+index(i), "it must be a text, not null")
				}
			}
		}
		return
	}
	if *list == nil {
		f.empty(key)
		return
	}
	f.key(key)
	f.out = append(f.out, '[')
	for i, s := range *list {
		if i > 0 {
			f.out = append(f.out, ',')
		}
		f.out = chat.AppendString(f.out, s)
	}
	f.out = append(f.out, ']')
}

// rawObject is a required object with any fields.
func (f *codec) rawObject(key string, v *json.RawMessage) {
	if f.reading {
		if raw, ok := f.take(key, required); ok {
			if raw[0] != '{' {
				f.fail(key, "it must be an object, not %s", kindOf(raw))
			}
			*v = raw
		}
		return
	}
	if len(*v) == 0 {
		f.raw(key, "{}")
		return
	}
	f.key(key)
	f.out = append(f.out, *v...)
}

func (f *codec) object(key string, o object) {
	if f.reading {
		if raw, ok := f.take(key, required); ok {
			f.read(key, raw, o)
		}
		return
	}
	f.key(key)
	f.out = encodeObject(f.out, o)
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }
