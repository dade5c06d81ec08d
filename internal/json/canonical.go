package json

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Same reports whether two JSON values mean the same: the order of members, white space, escapes and the spelling
// of numbers do not matter; of several members with the same name the last one counts.
func Same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	return bytes.Equal(AppendCanonical(nil, a), AppendCanonical(nil, b))
}

// maxCanonicalDepth bounds the recursion. A deeper value is appended as it is.
const maxCanonicalDepth = 1024

// AppendCanonical appends the one form that all spellings of a JSON value have. What is not JSON is appended as it is.
func AppendCanonical(out, v []byte) []byte {
	form, rest, ok := canonical(out, v, 0)
	if !ok || len(SkipSpace(rest)) > 0 {
		return append(out, v...)
	}
	return form
}

// canonical appends the form of the value that v begins with and returns what stands behind it.
func canonical(out, v []byte, depth int) (form, rest []byte, ok bool) {
	v = SkipSpace(v)
	if len(v) == 0 || depth > maxCanonicalDepth {
		return out, v, false
	}
	switch v[0] {
	case '{':
		return canonicalObject(out, v[1:], depth)
	case '[':
		return canonicalArray(out, v[1:], depth)
	}
	n := valueEnd(v)
	switch {
	case n == 0:
		return out, v, false
	case v[0] == '"':
		out = appendCanonicalText(out, v[:n])
	case v[0] == 't' || v[0] == 'f' || v[0] == 'n':
		out = append(out, v[:n]...)
	default:
		out = append(out, canonicalNumber(string(v[:n]))...)
	}
	return out, v[n:], true
}

func canonicalArray(out, v []byte, depth int) (form, rest []byte, ok bool) {
	out = append(out, '[')
	if v = SkipSpace(v); len(v) > 0 && v[0] == ']' {
		return append(out, ']'), v[1:], true
	}
	for {
		if out, v, ok = canonical(out, v, depth+1); !ok {
			return out, v, false
		}
		if v = SkipSpace(v); len(v) == 0 || v[0] != ',' {
			break
		}
		out, v = append(out, ','), v[1:]
	}
	if len(v) == 0 || v[0] != ']' {
		return out, v, false
	}
	return append(out, ']'), v[1:], true
}

// appendCanonicalText appends a text without the escapes that it does not need.
func appendCanonicalText(out, v []byte) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return append(out, v...)
	}
	var s string
	if Unmarshal(v, &s) != nil {
		return append(out, v...)
	}
	return AppendString(out, s)
}

// canonicalObject writes the members in the order of their names.
func canonicalObject(out, v []byte, depth int) (form, rest []byte, ok bool) {
	type member struct{ from, colon, to int } // in out
	var members []member
	name := func(m member) []byte { return out[m.from:m.colon] }
	begin, sorted := len(out), true
	for {
		if v = SkipSpace(v); len(v) > 0 && v[0] == '}' && len(members) == 0 {
			return append(out, "{}"...), v[1:], true
		}
		n := valueEnd(v)
		if n == 0 || v[0] != '"' {
			return out, v, false
		}
		m := member{from: len(out)}
		out = appendCanonicalText(out, v[:n])
		m.colon = len(out)
		if v = SkipSpace(v[n:]); len(v) == 0 || v[0] != ':' {
			return out, v, false
		}
		if out, v, ok = canonical(append(out, ':'), v[1:], depth+1); !ok {
			return out, v, false
		}
		m.to = len(out)
		sorted = sorted && (len(members) == 0 || bytes.Compare(name(members[len(members)-1]), name(m)) < 0)
		members = append(members, m)
		if v = SkipSpace(v); len(v) == 0 || v[0] != ',' {
			break
		}
		v = v[1:]
	}
	if len(v) == 0 || v[0] != '}' {
		return out, v, false
	}
	if !sorted {
		slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(name(a), name(b)) })
	}
	object := append(make([]byte, 0, len(out)-begin+len(members)+2), '{')
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(name(m), name(members[i+1])) {
			continue // a later one has the name too
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(object, out[m.from:m.to]...)
	}
	return append(append(out[:begin], object...), '}'), v[1:], true
}

// canonicalNumber gives the digits of a number without zeros at either end, and its exponent: 1.50e1 is 15e0. No digit
// is lost, unlike in a float.
func canonicalNumber(s string) string {
	rest, negative := strings.CutPrefix(s, "-")
	mantissa, power := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		n, err := strconv.Atoi(strings.TrimPrefix(rest[i+1:], "+"))
		if err != nil {
			return s
		}
		mantissa, power = rest[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	power -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	power += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0"
	}
	if negative {
		trimmed = "-" + trimmed
	}
	return trimmed + "e" + strconv.Itoa(power)
}
