package chat_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// All errors use the constants of the reasons, and no constant is unused.
func TestReasonsAreAClosedList(t *testing.T) {
	uses := map[string]int{} // how many errors have the reason
	fset := token.NewFileSet()
	parse := func(path string) *ast.File {
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	ast.Inspect(parse("error.go"), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Reason" {
				uses[v.Names[0].Name] = 0
			}
		}
		return true
	})
	if len(uses) == 0 {
		t.Fatal("no reasons found in error.go")
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "node_modules" || name == "testdata" || name == "bin" || len(name) > 2 && name[0] == '.') {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || path == "../chat/error.go" {
			return nil
		}
		ast.Inspect(parse(path), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if ok && sel.Sel.Name == "Reason" && isIdent(sel.X, "chat") {
					t.Errorf("%s: makes a chat.Reason that is no constant", fset.Position(n.Pos()))
				}
				if ok && sel.Sel.Name == "WithReason" {
					switch reason := n.Args[0].(type) {
					case *ast.BasicLit:
						t.Errorf("%s: the reason is no constant of chat", fset.Position(n.Pos()))
					case *ast.SelectorExpr:
						if _, listed := uses[reason.Sel.Name]; listed {
							uses[reason.Sel.Name]++
						}
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range uses {
		if n == 0 {
			t.Errorf("%s: no error has this reason", name)
		}
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
