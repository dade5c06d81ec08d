package json

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Fields takes a JSON object apart that is written as most programs write it:
// keys and texts without escapes. That is several times faster than reading any
// JSON, because the values are not read.
//
//	f := json.Fields{Rest: b}
//	for f.Next() {
//		switch string(f.Key) { … f.Value … }
//	}
//	if !f.Done() { … read it the slow way … }
//
// Values are cut out by their quotes and brackets. The caller must check whether they
// are valid, and whether one field comes twice.
type Fields struct {
	Rest       []byte // what is still to be read
	Key, Value []byte // parts of Rest
	Source     string // Rest at the beginning, if texts shall be parts of it instead of copies; "" otherwise

	begun, ended, bad bool
}

// Next goes to the next field; it is false at the end and where something is not
// as expected.
func (f *Fields) Next() bool {
	if f.bad || f.ended {
		return false
	}
	if !f.begun {
		f.begun = true
		f.need('{')
		if f.Skip('}') {
			return f.end()
		}
	} else if f.Skip('}') {
		return f.end()
	} else {
		f.need(',')
	}
	f.Rest = SkipSpace(f.Rest)
	n := valueEnd(f.Rest)
	if f.bad || n < 2 || f.Rest[0] != '"' {
		f.bad = true
		return false
	}
	f.Key, f.Rest = f.Rest[1:n-1], f.Rest[n:]
	f.need(':')
	f.Rest = SkipSpace(f.Rest)
	if n = valueEnd(f.Rest); f.bad || n == 0 {
		f.bad = true
		return false
	}
	f.Value, f.Rest = f.Rest[:n], f.Rest[n:]
	return true
}

// Stop says that a field is not as expected.
func (f *Fields) Stop() { f.bad = true }

// Done reports whether the object was read to its end, with nothing behind it.
func (f *Fields) Done() bool { return f.Ended() && len(SkipSpace(f.Rest)) == 0 }

// Ended reports whether the object was read to its end.
func (f *Fields) Ended() bool { return f.ended && !f.bad }

func (f *Fields) end() bool {
	f.ended = true
	return false
}

// Skip goes behind c if that is the next character.
func (f *Fields) Skip(c byte) bool {
	f.Rest = SkipSpace(f.Rest)
	if len(f.Rest) == 0 || f.Rest[0] != c {
		return false
	}
	f.Rest = f.Rest[1:]
	return true
}

func (f *Fields) need(c byte) {
	if !f.Skip(c) {
		f.bad = true
	}
}

// Text reads the value into s when it is a text without escapes; otherwise it
// stops.
func (f *Fields) Text(s *string) {
	n := len(f.Value)
	if n < 2 || f.Value[0] != '"' || f.Value[n-1] != '"' {
		f.bad = true
		return
	}
	var text string
	if f.Source != "" {
		text = f.ValueSource()[1 : n-1]
	} else {
		text = string(f.Value[1 : n-1])
	}
	if !isUnescaped(text) {
		f.bad = true
		return
	}
	*s = text
}

// ValueSource is the part of Source that the value is.
func (f *Fields) ValueSource() string {
	end := len(f.Source) - len(f.Rest)
	return f.Source[end-len(f.Value) : end]
}

// Int reads the value into n when it is a whole number of at most 15 digits;
// otherwise it stops.
func (f *Fields) Int(n *int) {
	if len(f.Value) > 15 || f.Value[0] == '0' && len(f.Value) > 1 {
		f.bad = true
		return
	}
	for _, c := range f.Value {
		if c < '0' || c > '9' {
			f.bad = true
			return
		}
	}
	*n, _ = strconv.Atoi(string(f.Value))
}

// Bool reads the value into v when it is true or false; otherwise it stops.
func (f *Fields) Bool(v *bool) {
	switch string(f.Value) {
	case "true":
		*v = true
	case "false":
		*v = false
	default:
		f.bad = true
	}
}

// isUnescaped reports whether the inside of a JSON text is the text itself.
func isUnescaped(s string) bool {
	if IsPlain(s) {
		return true
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(s)
}

// SkipSpace removes white space in front.
func SkipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// valueEnd is the length of the value that b begins with, 0 when there is none.
func valueEnd(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		return TextEnd(b)
	case '{', '[':
		depth := 0
		for i := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				n := TextEnd(b[i:])
				if n == 0 {
					return 0
				}
				i += n - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return 0
	}
	if n := bytes.IndexAny(b, ",}] \n\t\r"); n >= 0 {
		return n
	}
	return len(b)
}
