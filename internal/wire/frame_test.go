package wire

import (
	"bytes"
	"testing"
)

// A frame that is written in place is the same as one of a payload, at every length of the head.
func TestFrameInPlace(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 300, 1<<16 - 1, 1 << 16, 1<<16 + 7} {
		payload := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
		for i := range payload {
			payload[i] += byte(i % 3)
		}
		b, begin := BeginTextFrame([]byte("before"))
		if got, want := EndTextFrame(append(b, payload...), begin), AppendTextFrame([]byte("before"), payload); !bytes.Equal(got, want) {
			t.Errorf("a payload of %d bytes: %d bytes instead of %d, or others", n, len(got), len(want))
		}
	}
}
