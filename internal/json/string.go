package json

import "unicode/utf8"

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(b []byte, s string) []byte {
	if IsPlain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	text, _ := Marshal(s) // does not fail for a string
	return append(b, text...)
}

// IsPlain reports whether s is ASCII and needs no escapes in JSON. Every text
// that is stored passes here, so it looks at eight bytes at a time.
func IsPlain(s string) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	none := func(x uint64) uint64 { return (x - ones) & ^x & tops } // not 0 when a byte of x is 0
	for len(s) >= 8 {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		control := (x - 0x20*ones) & ^x & tops
		if x&tops|control|none(x^'"'*ones)|none(x^'\\'*ones) != 0 {
			return false
		}
		s = s[8:]
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// StringLen is how many bytes a text takes inside a JSON string, without the quotes.
func StringLen(s string) int {
	if IsPlain(s) {
		return len(s)
	}
	return len(AppendString(nil, s)) - 2
}
