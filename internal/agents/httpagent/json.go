package httpagent

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

func compactJSON(raw json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.Bytes(), err
}

// sameJSON compares two JSON texts without their white space.
func sameJSON(a, b json.RawMessage) bool {
	x, errX := compactJSON(a)
	y, errY := compactJSON(b)
	if errX != nil || errY != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x, y)
}

// asObject returns the parameters of a tool call as a JSON object; any other
// value becomes its field "input".
func asObject(p json.RawMessage) json.RawMessage {
	p = bytes.TrimSpace(p)
	switch {
	case len(p) == 0 || string(p) == "null":
		return nil
	case json.Valid(p) && p[0] == '{':
		return p
	}
	b, _ := json.Marshal(map[string]json.RawMessage{"input": asJSON(strings.ToValidUTF8(string(p), "\uFFFD"))})
	return b
}

// asJSON returns a text that is JSON as it is, any other text as a JSON string.
func asJSON(s string) json.RawMessage {
	if t := strings.TrimSpace(s); t != "" && json.Valid([]byte(t)) {
		return json.RawMessage(t)
	}
	b, _ := json.Marshal(s)
	return b
}

// maxJSON is the largest parameters or result of a tool that fit an event.
const maxJSON = 256 << 10

// limitJSON returns a value that fits an event; of a larger one it keeps the
// beginning as a text.
func limitJSON(v json.RawMessage) json.RawMessage {
	if len(v) <= maxJSON {
		return v
	}
	b, _ := json.Marshal(text.Clip(string(v), maxJSON/4) + " (cut: it had " + strconv.Itoa(len(v)) + " bytes)")
	return b
}
