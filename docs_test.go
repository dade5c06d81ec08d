package parley_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testGroup = regexp.MustCompile("`([a-z0-9./]+)`: ((?:`Test[A-Za-z0-9]+`(?:, )?)+)")
	testName  = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

// The tests that docs/testing.md names exist in the folders that it names.
func TestNamedTestsExist(t *testing.T) {
	page, err := os.ReadFile("docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	text, found := string(page), 0
	for _, group := range testGroup.FindAllStringSubmatch(text, -1) {
		files, err := filepath.Glob(filepath.Join(group[1], "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("the folder %s has no tests (%v)", group[1], err)
		}
		var source strings.Builder
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(b)
		}
		for _, name := range testName.FindAllStringSubmatch(group[2], -1) {
			found++
			if !strings.Contains(source.String(), "\nfunc "+name[1]+"(") {
				t.Errorf("%s has no test %s", group[1], name[1])
			}
		}
	}
	if all := len(testName.FindAllString(text, -1)); found != all {
		t.Errorf("%d of %d tests stand behind the name of their folder", found, all)
	}
}

var namedFile = regexp.MustCompile("`([A-Za-z0-9_*./-]+/[A-Za-z0-9_*.-]*)`")

// The files and folders of this repository that the pages for contributors name exist.
func TestNamedFilesExist(t *testing.T) {
	for _, page := range []string{"CONTRIBUTING.md", "docs/architecture.md", "docs/testing.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedFile.FindAllStringSubmatch(string(text), -1) {
			top, _, _ := strings.Cut(m[1], "/")
			if _, err := os.Stat(top); err != nil {
				continue // the name of a route, or of a file in the data folder
			}
			if files, err := filepath.Glob(m[1]); err != nil || len(files) == 0 {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}
