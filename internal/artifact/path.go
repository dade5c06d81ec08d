package artifact

import (
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// Limits of a path, in bytes.
const (
	maxPath    = 1024
	maxSegment = 255
)

// CheckPath reports why p cannot name an artifact. A path is relative, has
// slashes between its segments and has exactly one spelling. Paths are hashed before
// they reach the disk; the rules protect programs that later write a file under its
// path.
func CheckPath(p string) error {
	switch {
	case p == "":
		return chat.Errorf(chat.Invalid, "an artifact needs a path")
	case len(p) > maxPath:
		return chat.Errorf(chat.Invalid, "an artifact's path has at most %d bytes", maxPath)
	case !utf8.ValidString(p):
		return chat.Errorf(chat.Invalid, "an artifact's path is UTF-8")
	case p[0] == '/':
		return chat.Errorf(chat.Invalid, "an artifact's path is relative: leave out the leading slash")
	}
	for i := range len(p) {
		if c := p[i]; c < 0x20 || c == 0x7f || c == '\\' {
			return chat.Errorf(chat.Invalid, "an artifact's path has no control characters and no backslash")
		}
	}
	for segment := range strings.SplitSeq(p, "/") {
		switch {
		case segment == "":
			return chat.Errorf(chat.Invalid, "an artifact's path has one slash between names and none at its end")
		case segment == "." || segment == "..":
			return chat.Errorf(chat.Invalid, "an artifact's path does not contain . or .. as a name")
		case len(segment) > maxSegment:
			return chat.Errorf(chat.Invalid, "each name in an artifact's path has at most %d bytes", maxSegment)
		}
	}
	return nil
}

func check(session chat.SessionID, path string) error {
	if err := session.Validate(); err != nil {
		return err
	}
	return CheckPath(path)
}

func notFound(path string) error {
	return chat.Errorf(chat.NotFound, "the session has no artifact %q", path)
}
