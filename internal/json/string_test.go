package json

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// IsPlain gives the same as checking each byte, for every byte at every index.
func TestIsPlain(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf
		for at := range 20 {
			s := strings.Repeat("~", at) + string([]byte{byte(c)}) + strings.Repeat(" ", 19-at)
			if IsPlain(s) != want {
				t.Fatalf("%q", s)
			}
		}
	}
	if !IsPlain("") {
		t.Fatal("nothing needs no escapes")
	}
}
