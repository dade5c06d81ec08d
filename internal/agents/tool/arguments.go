package tool

import (
	"bytes"

	"github.com/parley-hq/parley/internal/json"
)

// Repeats reports whether an object in the arguments of a call has two members whose names are equal after change. Programs
// differ in which of them they use: the rules and the person who approves could get another value than the tool.
func Repeats(params json.RawMessage, change func(name string) string) bool {
	type level struct {
		names map[string]bool // nil in a list
		value bool            // the next token is the value of a member
	}
	var levels []level
	for d := json.NewDecoder(bytes.NewReader(params)); ; {
		token, err := d.Token()
		if err != nil {
			return false // the end, or not JSON
		}
		if len(levels) > 0 {
			in := &levels[len(levels)-1]
			name, text := token.(string)
			if text && in.names != nil && !in.value {
				if name = change(name); in.names[name] {
					return true
				}
				in.names[name], in.value = true, true
				continue
			}
			in.value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		}
	}
}
