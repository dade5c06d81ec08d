package chat

import "unicode/utf8"

// MaxBlockJSON bounds what the text of a block takes inside JSON, so that the
// event that finishes it always fits MaxEvent.
const MaxBlockJSON = MaxEvent - 8<<10

// JSONLen is how many bytes a text takes inside a JSON string, without the
// quotes.
func JSONLen(s string) int {
	n := len(s)
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < 0x20:
			n += 5
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
				n += 6 - size
			}
			i += size
			continue
		}
		i++
	}
	return n
}
