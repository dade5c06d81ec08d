package remote

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// sameJSON reports whether two values are written the same, but for spaces.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}

// object makes what an endpoint gave as parameters an object.
func object(p json.RawMessage) json.RawMessage {
	p = bytes.TrimSpace(p)
	switch {
	case len(p) == 0 || string(p) == "null":
		return nil
	case json.Valid(p) && p[0] == '{':
		return p
	case json.Valid(p):
		b, _ := json.Marshal(map[string]json.RawMessage{"input": p})
		return b
	}
	b, _ := json.Marshal(map[string]string{"input": strings.ToValidUTF8(string(p), "\uFFFD")})
	return b
}

// value makes a text JSON: as it is when it is some, else as a string.
func value(s string) json.RawMessage {
	if t := strings.TrimSpace(s); t != "" && json.Valid([]byte(t)) {
		return json.RawMessage(t)
	}
	b, _ := json.Marshal(s)
	return b
}

// maxJSON is the most of a tool's parameters or result that is kept, so that
// the event fits.
const maxJSON = 256 << 10

// bounded is a value that fits an event; of one that does not, the beginning is
// kept as text.
func bounded(v json.RawMessage) json.RawMessage {
	if len(v) <= maxJSON {
		return v
	}
	b, _ := json.Marshal(text.Clip(string(v), maxJSON/4) + " (cut: it had " + strconv.Itoa(len(v)) + " bytes)")
	return b
}
