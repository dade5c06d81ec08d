package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// source has what reflection does not have: comments, and the values of the named string types.
type source struct {
	docs   map[string]string            // type → its comment
	fields map[string]map[string]string // type → field → its comment
	values map[string][]string          // type → its constants, in order
}

// readSource reads the Go files of a folder.
func readSource(folder string) (source, error) {
	s := source{docs: map[string]string{}, fields: map[string]map[string]string{}, values: map[string][]string{}}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return s, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return s, err
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					s.typeSpec(g, spec)
				case *ast.ValueSpec:
					if g.Tok == token.CONST {
						s.constant(spec)
					}
				}
			}
		}
	}
	return s, nil
}

func (s source) typeSpec(g *ast.GenDecl, spec *ast.TypeSpec) {
	doc := spec.Doc
	if doc == nil {
		doc = g.Doc
	}
	s.docs[spec.Name.Name] = plainText(doc)
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	fields := map[string]string{}
	for _, f := range st.Fields.List {
		text := plainText(f.Doc)
		if text == "" {
			text = plainText(f.Comment)
		}
		for _, n := range f.Names {
			fields[n.Name] = text
		}
	}
	s.fields[spec.Name.Name] = fields
}

// constant records a constant such as Idle Status = "idle".
func (s source) constant(spec *ast.ValueSpec) {
	typ, ok := spec.Type.(*ast.Ident)
	if !ok {
		return
	}
	for _, v := range spec.Values {
		if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				s.values[typ.Name] = append(s.values[typ.Name], text)
			}
		}
	}
}

func plainText(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}
