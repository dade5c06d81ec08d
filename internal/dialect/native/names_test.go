package native

import (
	"testing"

	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/jsontest"
)

func TestNamesMatchExactly(t *testing.T) {
	frame := func(b []byte) (clientFrame, error) {
		f, err := parseFrame(b)
		f.raw = nil
		return f, err
	}
	jsontest.Names(t, `{"op":"append","id":1,"session_id":"s","events":[{"type":"user.message"}]}`, frame)
	jsontest.Names(t, `{"op":"preview","session_id":"s","preview":{"block":"b","text":"x"}}`, frame)
	jsontest.Names(t, `{"op":"answer","request_id":"r","answer":{"text":"x"},"reason":"r","workstream_id":"w"}`, frame)
	jsontest.Names(t, `{"op":"ready","slots":2,"turns":["t-1"]}`, frame)
	jsontest.Errors(t, frame)
	patch := func(b []byte) (p patchBody, err error) { return p, edge.Decode(b, &p) }
	jsontest.Names(t, `{"title":"a","policy":"queue","compact":true,"metadata":{"a":1}}`, patch)
	jsontest.Errors(t, patch)
	preview := func(b []byte) (p previewBody, err error) { return p, edge.Decode(b, &p) }
	jsontest.Names(t, `{"block":"b","offset":1,"text":"x","kind":"text"}`, preview)
	jsontest.Errors(t, preview)
}
