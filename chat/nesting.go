package chat

import "bytes"

// maxDepth is how deep the values of a payload may be nested. Readers in other
// languages give up sooner than ours; what is stored must be readable by all.
const maxDepth = 512

// checkDepth expects valid JSON.
func checkDepth(p []byte) error {
	// Counting is cheap, and hardly any payload has so many brackets.
	if bytes.Count(p, []byte{'{'})+bytes.Count(p, []byte{'['}) <= maxDepth {
		return nil
	}
	depth, quoted := 0, false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return Errorf(Invalid, "the payload is nested more than %d deep", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
