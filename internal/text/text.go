// Package text has small functions on texts that many packages need.
package text

import "strings"

// Clip shortens a text for a message to a person: at most max bytes, cut between characters, with "…" where it was cut.
func Clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}
