package wire

import (
	"errors"
	"unicode/utf8"
)

// MaxJSONDepth is how deep JSON may be nested when a caller of [CheckJSON] has
// no opinion.
const MaxJSONDepth = 64

// ErrJSONText and ErrJSONDepth are what [CheckJSON] finds.
var (
	ErrJSONText  = errors.New("the JSON is not valid UTF-8")
	ErrJSONDepth = errors.New("the JSON is nested too deeply")
)

// CheckJSON refuses, in one quick pass and before anything is decoded, what
// encoding/json would let through: text that is not UTF-8 (it would be changed
// silently) and nesting deeper than maxDepth (0 means [MaxJSONDepth]). It does
// not check that b is JSON otherwise.
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
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
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
