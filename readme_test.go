package parley_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeBlock    = regexp.MustCompile("(?ms)^```.*?^```$")
	// pathInCode matches a path below a folder of the repository, such as `internal/edge` or `chat/event.go`.
	pathInCode  = regexp.MustCompile("`((?:agent|bench|chaos|chat|client|cmd|docs|e2e|examples|internal|sdk|web)/[A-Za-z0-9_./-]+)`")
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocsNameExistingFiles finds links to files, links to headings and paths in code spans that do not exist.
func TestDocsNameExistingFiles(t *testing.T) {
	pages := 0
	err := filepath.WalkDir(".", func(page string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || page != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(page) != ".md":
			return nil
		}
		pages++
		text := codeBlock.ReplaceAllString(read(t, page), "")
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], ":") { // an address
				continue
			}
			file, heading, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads to no file", page, m[1])
			} else if heading != "" && filepath.Ext(target) == ".md" && !hasHeading(read(t, target), heading) {
				t.Errorf("%s: the link %s leads to no heading", page, m[1])
			}
		}
		for _, m := range pathInCode.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil && page != "CHANGELOG.md" && filepath.Base(m[1]) != "dist" { // the build writes dist
				t.Errorf("%s: %s does not exist", page, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 30 {
		t.Errorf("only %d pages were found", pages)
	}
}

// hasHeading reports whether a page has the heading with this anchor, as GitHub makes anchors.
func hasHeading(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			title = notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			if strings.ReplaceAll(title, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
