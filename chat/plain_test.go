package chat

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Every byte, at every place of a text, is judged as one by one.
func TestIsPlain(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf
		for at := range 20 {
			s := strings.Repeat("~", at) + string([]byte{byte(c)}) + strings.Repeat(" ", 19-at)
			if isPlain(s) != want {
				t.Fatalf("%q", s)
			}
		}
	}
	if !isPlain("") {
		t.Fatal("nothing needs no escapes")
	}
}
