package terminal

import (
	"regexp"
	"strings"
)

// secretName matches the names of fields whose values are not shown; the console has the same, in web/react/src/shared/json.tsx.
var secretName = regexp.MustCompile(`(?i)secret|token(?:[^s]|$)|password|passwd|api[_-]?key|authorization|credential`)

// masked is JSON without the values of fields that may be secret. What is not JSON is returned as it is.
func masked(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '"' {
			out.WriteByte(text[i])
			i++
			continue
		}
		end := stringEnd(text, i)
		name := text[i:end]
		out.WriteString(name)
		i = end
		if i < len(text) && text[i] == ':' && secretName.MatchString(strings.Trim(name, `"`)) {
			out.WriteString(`:"••••••"`)
			i = valueEnd(text, i+1)
		}
	}
	return out.String()
}

// stringEnd is where the string ends that begins at i.
func stringEnd(text string, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// valueEnd is where the value ends that begins at i.
func valueEnd(text string, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}
