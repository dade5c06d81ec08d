package terminal

import "testing"

func TestSanitizeRemovesControlCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[2Jb":         "a\uFFFD[2Jb",
		"tab\tline\r\nnext": "tab\tline\nnext",
		"rm \u202efdp.exe":  "rm fdp.exe",
		"a\x9b31mb":         "a\uFFFD31mb",
		"a\u009b31mb":       "a\uFFFD31mb",
		"grün 日本":           "grün 日本",
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("Sanitize(%q) = %q, want %q", in, got, want)
		}
	}
}
