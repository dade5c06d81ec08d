package llm

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// malformed is the key of the object that wraps arguments that are not valid JSON.
const malformed = "_malformed_tool_arguments"

// Object returns the arguments of an earlier call as a JSON object, for providers that
// accept nothing else. It completes arguments that were cut off. It wraps arguments
// that are not valid JSON in an object, so that neither the call nor its text is lost.
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
	} else if raw, ok := asObject(complete(escapeControls(text))); ok {
		return raw
	}
	return unread(arguments)
}

// unread returns an object that wraps arguments that are not valid JSON.
func unread(arguments string) json.RawMessage {
	b := append([]byte(`{"`), malformed...)
	b = append(b, `":`...)
	b = chat.AppendString(b, arguments)
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

// complete closes the strings and brackets that a cut-off JSON text left open. It
// leaves a text that is malformed in another way unchanged, except for extra commas
// and brackets at its end, because dropping unreadable text would lose it silently.
func complete(text string) string {
	if !strings.HasPrefix(text, "{") {
		return text
	}
	cut, cutOff := len(text), closeAll(text) != text
	for range 64 { // a cut-off text needs one or two iterations
		if s := closeAll(text[:cut]); (cutOff || strings.Trim(text[cut:], ",}] \n\r\t") == "") && json.Valid([]byte(s)) {
			return s
		}
		// The last element cannot be completed: part of a key, part of a literal, a
		// comma. Remove it.
		next := strings.LastIndexAny(text[:cut], ",{[")
		if next < 0 {
			break
		}
		if text[next] == ',' || next+1 == cut {
			cut = next
		} else {
			cut = next + 1
		}
	}
	return text
}

// closeAll appends the missing quote and brackets.
func closeAll(text string) string {
	var open []byte
	quoted, escaped := false, false
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			open = append(open, '}')
		case c == '[':
			open = append(open, ']')
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	if escaped {
		text = text[:len(text)-1]
	}
	if quoted {
		text += `"`
	}
	for i := len(open) - 1; i >= 0; i-- {
		text += string(open[i])
	}
	return text
}
