package native

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// TestFastEncodingEqualsJSON: the hand-written encoders give the same bytes as the JSON
// package.
func TestFastEncodingEqualsJSON(t *testing.T) {
	hello := helloFrame{Session: "s-1", Last: 42, Cursor: chat.Cursor{Seq: 41, Blocks: []chat.Mark{{Block: "b7", Bytes: 120}}}, ServerNow: 1794704021301123}
	ping := pingFrame{ServerNow: 1794704021301123}
	for _, c := range []struct {
		got  []byte
		from any
	}{{hello.append(nil), hello}, {ping.append(nil), ping}} {
		want, err := json.Marshal(c.from)
		if err != nil {
			t.Fatal(err)
		}
		if string(c.got) != string(want) {
			t.Errorf("got  %s\nwant %s", c.got, want)
		}
	}
}
