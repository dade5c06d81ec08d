package wire

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/json"
)

// MaxJSONDepth is how deep JSON may be nested unless the caller of [CheckJSON] sets a
// limit.
const MaxJSONDepth = 64

// ErrJSONText, ErrJSONSurrogate and ErrJSONDepth are what [CheckJSON] finds.
var (
	ErrJSONText      = errors.New("the JSON is not valid UTF-8")
	ErrJSONSurrogate = errors.New("the JSON has half of a surrogate pair, which is no character")
	ErrJSONDepth     = errors.New("the JSON is nested too deeply")
)

// CheckJSON refuses, in one pass and before anything is decoded, what encoding/json
// accepts: text that is not UTF-8 or escapes half a surrogate pair (a decoder would
// replace it, and differently in other languages), and nesting deeper than maxDepth
// (0 means [MaxJSONDepth]). It does not check that b is valid JSON otherwise.
func CheckJSON(b []byte, maxDepth int) error {
	if maxDepth <= 0 {
		maxDepth = MaxJSONDepth
	}
	if !utf8.Valid(b) {
		return ErrJSONText
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := json.TextEnd(b[i:])
			if n == 0 {
				return nil // a text without an end
			}
			if !wholeCharacters(b[i+1 : i+n-1]) {
				return ErrJSONSurrogate
			}
			i += n - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return ErrJSONDepth
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// wholeCharacters reports whether the escapes in a text give whole characters.
func wholeCharacters(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 == len(text) {
			return true
		}
		escaped := text[i+1]
		text = text[i+2:]
		if escaped == 'u' {
			more, ok := surrogates(text)
			if !ok {
				return false
			}
			text = text[more:]
		}
	}
}

// surrogates checks the bytes after \u. It returns how many of them the second half
// of a pair takes, and false for half a pair.
func surrogates(b []byte) (more int, ok bool) {
	switch r := hex4(b); {
	case r < 0xd800 || r > 0xdfff:
		return 0, true
	case r > 0xdbff || len(b) < 10 || b[4] != '\\' || b[5] != 'u':
		return 0, false
	default:
		low := hex4(b[6:])
		return 10, low >= 0xdc00 && low <= 0xdfff
	}
}

// hex4 reads four hexadecimal digits. It returns 0 for anything else, which the
// decoder refuses.
func hex4(b []byte) (r rune) {
	if len(b) < 4 {
		return 0
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0
		}
		r = r<<4 | rune(c)
	}
	return r
}
