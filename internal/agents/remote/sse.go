package remote

import (
	"bytes"
	"io"
	"strings"
)

// event is one event of a server-sent stream. NeMo has field names of its own
// and errors without any; those are in other and bare.
type event struct {
	name  string
	data  string
	other map[string]string
	bare  string // a line that begins with a brace
	cut   bool   // the stream ended behind it, perhaps in the middle of it
}

func (e *event) empty() bool {
	return e.name == "" && e.data == "" && len(e.other) == 0 && e.bare == ""
}

// next returns the next event of a stream; io.EOF behind the last. An event that
// was cut off before its empty line is given too: its reader knows whether it is
// whole.
func (s *stream) next() (event, error) {
	var e event
	var data []string
	for {
		line, err := s.line()
		if err != nil {
			e.data = strings.Join(data, "\n")
			if err == io.EOF && !e.empty() {
				e.cut = true
				return e, nil
			}
			return e, err
		}
		if len(line) == 0 {
			e.data = strings.Join(data, "\n")
			if !e.empty() {
				return e, nil
			}
			continue
		}
		if line[0] == '{' {
			e.bare = string(line)
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "": // a comment
		case "event":
			e.name = string(value)
		case "data":
			data = append(data, string(value))
		case "id", "retry":
		default:
			if e.other == nil {
				e.other = map[string]string{}
			}
			e.other[string(name)] = string(value)
		}
	}
}
