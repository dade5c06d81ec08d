package llm

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/internal/json"
)

// malformed is the key of the object that wraps arguments that are not valid JSON.
const malformed = "_malformed_tool_arguments"

// Object returns the arguments of an earlier call as a JSON object, for providers that
// accept nothing else. Other arguments are wrapped in an object, so that neither the
// call nor its text is lost.
func Object(arguments string) json.RawMessage {
	text := strings.TrimSpace(arguments)
	if text == "" || text == "null" {
		return json.RawMessage("{}")
	}
	if raw, ok := asObject(text); ok {
		return raw
	}
	// Some models encode the arguments twice.
	var inner string
	if json.Unmarshal([]byte(text), &inner) == nil {
		if raw, ok := asObject(strings.TrimSpace(inner)); ok {
			return raw
		}
	}
	return unread(arguments)
}

// unread returns an object that wraps arguments that are not valid JSON.
func unread(arguments string) json.RawMessage {
	b := append([]byte(`{"`), malformed...)
	b = append(b, `":`...)
	b = json.AppendString(b, arguments)
	return append(b, '}')
}

// Settle returns the arguments of a new call in the form to store: as valid JSON if
// possible, else as the model wrote them. It does not complete arguments that were cut
// off, because running a tool with incomplete arguments can do harm.
func Settle(arguments string) string {
	text := strings.TrimSpace(arguments)
	if text == "" {
		return "{}"
	}
	if json.Valid([]byte(text)) {
		return text
	}
	if fixed, ok := asObject(escapeControls(text)); ok { // the text was complete
		return string(fixed)
	}
	return arguments
}

func asObject(text string) (json.RawMessage, bool) {
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return nil, false
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// escapeControls escapes control characters such as line breaks inside strings, which
// some models write unescaped.
func escapeControls(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' }) < 0 {
		return text
	}
	var b strings.Builder
	quoted, escaped := false, false
	for i := range len(text) {
		switch c := text[i]; {
		case quoted && !escaped && c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		case escaped:
			escaped = false
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			escaped = true
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
