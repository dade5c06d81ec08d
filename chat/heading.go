package chat

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeading bounds a heading, in characters.
const maxHeading = 60

const hiddenWord = "…"

var (
	commandWord = regexp.MustCompile(`^/[A-Za-z][^\s/]*`)
	bearerWord  = regexp.MustCompile(`(?i)\b(bearer|basic)\s+\S{8,}`)
	secretValue = regexp.MustCompile(`(?i)\b(pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|authorization|api[ _-]?key|[a-z_]+_(?:key|token|secret|password))(["']?\s*(?:[:=]|\bis\b)\s*)\S+`)
	urlLogin    = regexp.MustCompile(`://[^\s/@]+@`)
	urlQuery    = regexp.MustCompile(`(https?://[^\s?#]+)[?#]\S*`)
	longWord    = regexp.MustCompile(`[A-Za-z0-9_+=-]{20,}`)
	keyPrefix   = regexp.MustCompile(`\b(?:(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abps])[-_]|AKIA|eyJ)[\w.-]{8,}`)
)

// HeadingOf makes one short line from a first message, for lists of sessions. It leaves out
// what may be secret: the arguments of a command, the values of passwords and tokens, the
// login and the query of a URL, and long words of letters and digits.
func HeadingOf(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.Join(strings.Fields(line), " ")
	if c := commandWord.FindString(line); c != "" && (len(c) == len(line) || line[len(c)] == ' ') {
		line = c
	}
	line = bearerWord.ReplaceAllString(line, "${1} "+hiddenWord)
	line = secretValue.ReplaceAllString(line, "${1}${2}"+hiddenWord)
	line = urlLogin.ReplaceAllString(line, "://"+hiddenWord+"@")
	line = urlQuery.ReplaceAllString(line, "${1}")
	line = keyPrefix.ReplaceAllString(line, hiddenWord)
	line = longWord.ReplaceAllStringFunc(line, func(w string) string {
		if strings.ContainsFunc(w, unicode.IsDigit) && strings.ContainsFunc(w, unicode.IsLetter) {
			return hiddenWord
		}
		return w
	})
	if utf8.RuneCountInString(line) > maxHeading {
		line = strings.TrimSpace(string([]rune(line)[:maxHeading-1])) + "…"
	}
	return line
}
