package chat

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/internal/json"
)

func TestStringLenIsNeverTooLow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		})).Draw(t, "text")
		n := json.StringLen(s)
		if wrote := len(json.AppendString(nil, s)) - 2; wrote > n {
			t.Fatalf("%q takes %d bytes, not %d", s, wrote, n)
		}
		p, err := encodePayload(AgentStatus{Message: s})
		if err != nil {
			t.Fatal(err)
		}
		if wrote := len(p) - len(`{"message":""}`); wrote > n {
			t.Fatalf("%q takes %d bytes in a payload, not %d", s, wrote, n)
		}
	})
}
