package terminal

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Sanitize removes control characters except line breaks and tabs, and characters that reorder text. Messages of agents
// and people must not be able to control the reader's terminal.
func Sanitize(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD") // single bytes are control characters for some terminals
	}
	clean := true
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || bidi(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r' || bidi(r):
			return -1
		case unicode.IsControl(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// bidi reports whether r reorders the text around it. In an approval that could make a command look like another one.
func bidi(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// OneLine is a text without line breaks and control characters.
func OneLine(s string) string { return strings.Join(strings.Fields(Sanitize(s)), " ") }

// Clip shortens a line to so many columns.
func Clip(s string, columns int) string { return ansi.Truncate(s, columns, "…") }

// Size formats a number of bytes.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for ; v >= unit && i < 3; i++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[i])
}

// Count formats a count with its noun.
func Count[N int | int64 | uint64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// File returns the file behind a stream when it is a terminal.
func File(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}
