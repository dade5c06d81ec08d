package chat

import (
	"regexp"
	"strings"
)

// maxHeading bounds a heading, in characters.
const maxHeading = 60

var (
	headingSpaces  = regexp.MustCompile(`\s+`)
	headingCommand = regexp.MustCompile(`(?i)^(/[a-z][^ /]*) .*`)
	headingSecret  = regexp.MustCompile(`(?i)(\w*(?:passw|passphrase|pwd|secret|token|authorization|credential|key)\w*["']?(?: ?[:=] ?| is ))(?:bearer |basic )?\S+`)
	headingURL     = regexp.MustCompile(`(://)(?:[^ /@]*@)?([^ ?#]*)\S*`)
	headingKey     = regexp.MustCompile(`(?i)[a-z\d+=]{12,}`)
)

// headingOf makes one short line from a first message, for lists of sessions. It leaves out
// what may be secret: the arguments of a command, the values of passwords and tokens, the
// login and the query of a URL, and keys, which are long words of letters and digits.
func headingOf(text string) string {
	line := strings.TrimSpace(text)
	if i := strings.IndexAny(line, "\r\n"); i >= 0 {
		line = line[:i]
	}
	line = strings.TrimSpace(headingSpaces.ReplaceAllString(line, " "))
	line = headingCommand.ReplaceAllString(line, "${1}")
	line = headingSecret.ReplaceAllString(line, "${1}…")
	line = headingURL.ReplaceAllString(line, "${1}${2}")
	line = headingKey.ReplaceAllStringFunc(line, func(w string) string {
		if strings.ContainsAny(w, "0123456789") && strings.ToLower(w) != strings.ToUpper(w) {
			return "…"
		}
		return w
	})
	if r := []rune(line); len(r) > maxHeading {
		line = string(r[:maxHeading-1]) + "…"
	}
	return line
}
