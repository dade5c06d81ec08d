package parley_test

import (
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// usageLeftOut lists, for each function that reads or writes counts of chat.Usage, the counts that it leaves out on
// purpose, and why. A new count fails the test until every function has it or leaves it out here.
var usageLeftOut = map[string]struct{ counts, why string }{
	"internal/agents/demo usage":             {"CacheCreationTokens CacheReadTokens ReasoningTokens", "/usage takes two numbers"},
	"internal/agents/demo tour":              {"CacheCreationTokens CacheReadTokens ReasoningTokens", "an example of two counts is enough"},
	"internal/agents/httpagent handleChunk":  {"CacheCreationTokens CacheReadTokens ReasoningTokens", "it only asks whether there are counts; they are parts of the two"},
	"internal/dialect/nemo usage":            {"CacheCreationTokens CacheReadTokens ReasoningTokens", "the toolkit's usage has no details"},
	"internal/dialect/vertesia tokensOf":     {"CacheCreationTokens ReasoningTokens", "Vertesia's token_usage has no such count"},
	"internal/dialect/vertesia bodyMessages": {"CacheCreationTokens CacheReadTokens ReasoningTokens", "the text is short; tokensOf adds the rest"},
	"internal/dialect/x1 moveCached":         {"OutputTokens ReasoningTokens", "only cached tokens are counted differently; the others are passed on"},
	"internal/llm/gemini Add":                {"CacheCreationTokens", "Gemini does not report it"},
	"internal/terminal stateLine":            {"CacheCreationTokens CacheReadTokens ReasoningTokens", "the line has room for two counts"},
}

func TestEveryUseOfUsageConsidersEveryCount(t *testing.T) {
	counts := reflect.TypeFor[chat.Usage]()
	unused := maps.Clone(usageLeftOut)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (file != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		for _, decl := range parse(t, file).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			used := namesIn(f)
			if !used["InputTokens"] {
				continue
			}
			function := path.Dir(filepath.ToSlash(file)) + " " + f.Name.Name
			delete(unused, function)
			for i := range counts.NumField() {
				name := counts.Field(i).Name
				leftOut := slices.Contains(strings.Fields(usageLeftOut[function].counts), name)
				switch {
				case !used[name] && !leftOut:
					t.Errorf("%s does not have %s of chat.Usage: use it, or list it in usageLeftOut", function, name)
				case used[name] && leftOut:
					t.Errorf("%s has %s of chat.Usage and leaves it out in usageLeftOut", function, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for function := range unused {
		t.Errorf("%s is in usageLeftOut, but uses no count of chat.Usage", function)
	}
}

// namesIn returns the names of fields that a function selects or sets.
func namesIn(f *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			names[n.Sel.Name] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				names[key.Name] = true
			}
		}
		return true
	})
	return names
}
