package llm

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// malformed is the key under which arguments stand that cannot be read.
const malformed = "_malformed_tool_arguments"

// Object returns the arguments of an earlier call as a JSON object, for a provider
// that takes nothing else. What a model broke off in the middle is completed; what
// cannot be read is kept as text in an object of its own, so that neither the call
// nor its words are lost.
func Object(arguments string) json.RawMessage {
	text := strings.TrimSpace(arguments)
	if text == "" || text == "null" {
		return json.RawMessage("{}")
	}
	if raw, ok := asObject(text); ok {
		return raw
	}
	// Some models encode twice.
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

// unread is an object that holds arguments which cannot be read.
func unread(arguments string) json.RawMessage {
	b := append([]byte(`{"`), malformed...)
	b = append(b, `":`...)
	b = chat.AppendString(b, arguments)
	return append(b, '}')
}

// Settle returns the arguments of a call that a model has just made as they are
// kept: JSON, or else as the model gave them. What it broke off is not completed
// here, because a tool that runs with half of its arguments does harm.
func Settle(arguments string) string {
	text := strings.TrimSpace(arguments)
	if text == "" {
		return "{}"
	}
	if json.Valid([]byte(text)) {
		return text
	}
	if fixed, ok := asObject(escapeControls(text)); ok { // nothing is missing
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

// escapeControls escapes line breaks and the like inside of quotes, which models
// write as they are.
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

// complete closes what a cut-off JSON text left open. A text that was not cut off
// but is wrong in itself stays as it is, except for commas too many at its end:
// to leave out what cannot be read would be to lose it in silence.
func complete(text string) string {
	if !strings.HasPrefix(text, "{") {
		return text
	}
	cut, cutOff := len(text), closeAll(text) != text
	for range 64 { // a model that was cut off leaves one or two
		if s := closeAll(text[:cut]); (cutOff || strings.Trim(text[cut:], ",}] \n\r\t") == "") && json.Valid([]byte(s)) {
			return s
		}
		// What stands last cannot be completed: half a key, half a word, a
		// comma. Leave it out.
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

// closeAll adds the quote and brackets that are missing at the end.
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
