package parley_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTheExamples keeps the programs in the README equal to the files that are compiled and run by tests.
func TestReadmeShowsTheExamples(t *testing.T) {
	readme := read(t, "README.md")
	for language, file := range map[string]string{
		"go": "examples/follow/main.go", "ts": "examples/follow-typescript/follow.ts", "python": "examples/weather-python/weather.py",
	} {
		_, shown, ok := strings.Cut(readme, "```"+language+"\n")
		if !ok {
			t.Errorf("the README has no %s program", language)
			continue
		}
		shown, _, _ = strings.Cut(shown, "```")
		_, want, _ := strings.Cut(read(t, file), "\n") // without the line that says what it is
		if shown != want {
			t.Errorf("the README shows\n%s\nbut %s is\n%s", shown, file, want)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
