package parley_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTheExample keeps the Go code in the README equal to the example
// that is compiled.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, source := read(t, "README.md"), read(t, "client/example_test.go")
	_, shown, ok := strings.Cut(readme, "```go\n")
	shown, _, _ = strings.Cut(shown, "\n```")
	if !ok {
		t.Fatal("the README has no Go code")
	}
	_, body, _ := strings.Cut(source, "func Example() {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	var lines []string
	for line := range strings.SplitSeq(body, "\n") {
		lines = append(lines, strings.TrimPrefix(line, "\t"))
	}
	if want := strings.Join(lines, "\n"); shown != want {
		t.Errorf("the README shows\n%s\nbut the example is\n%s", shown, want)
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
