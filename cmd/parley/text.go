package main

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// plain takes out what could steer a terminal: what agents and people say is
// text, not commands to the screen of whoever reads it.
func plain(s string) string {
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

// bidi reports whether r reorders the text around it, which can make a command
// look like another one in an approval.
func bidi(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// clip shortens a line to so many columns.
func clip(s string, columns int) string { return ansi.Truncate(s, columns, "…") }
