package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Error is a complaint about a configuration.
type Error struct {
	File  string
	Line  int    // 0 when it is not known
	Field string // such as agents[0].model; "" when it is about no field
	Msg   string
}

// Error names file, line and field.
func (e *Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where += fmt.Sprintf(":%d", e.Line)
	}
	if e.Field != "" {
		where += ": " + e.Field
	}
	return where + ": " + e.Msg
}

// problem gives an error of the parser file, line and field.
func problem(file string, root ast.Node, err error) error {
	out := &Error{File: file}
	var at *token.Token
	var typ *yaml.TypeError
	var unknown *yaml.UnknownFieldError
	var node *yaml.UnexpectedNodeTypeError
	var other yaml.Error
	switch {
	case errors.As(err, &typ):
		at, out.Msg = typ.Token, "it should be "+kindOf(typ.DstType)
	case errors.As(err, &unknown):
		at, out.Msg = unknown.Token, "there is no such field"
	case errors.As(err, &node):
		at, out.Msg = node.Token, "it should be "+nodeKind(node.Expected)
	case strings.HasPrefix(err.Error(), "time: "):
		at, out.Msg = valueOf(root, err.Error()), "it should be "+aDuration
	case errors.As(err, &other):
		at, out.Msg = other.GetToken(), strings.TrimSpace(other.GetMessage())
	default:
		out.Msg = err.Error()
	}
	if at != nil {
		out.Line = at.Position.Line
		out.Field = pathOf(root, at)
	}
	return out
}

const aDuration = "a duration, such as 30s or 2m"

// nodeKind words what the parser expects.
func nodeKind(t ast.NodeType) string {
	switch t {
	case ast.SequenceType:
		return "a list"
	case ast.MappingType:
		return "a group of fields"
	case ast.StringType:
		return "text"
	}
	return "something else"
}

// valueOf finds the value that an error without a place quotes.
func valueOf(root ast.Node, text string) *token.Token {
	_, rest, _ := strings.Cut(text, `"`)
	value, _, _ := strings.Cut(rest, `"`)
	f := &valueFinder{value: value}
	if root != nil && value != "" {
		ast.Walk(f, root)
	}
	return f.at
}

type valueFinder struct {
	value string
	at    *token.Token
}

// Visit looks at a node.
func (f *valueFinder) Visit(n ast.Node) ast.Visitor {
	if s, ok := n.(ast.ScalarNode); ok && f.at == nil && s.GetToken() != nil && s.GetToken().Value == f.value {
		f.at = s.GetToken()
	}
	return f
}

// kindOf words a type for people who write YAML.
func kindOf(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	if t.String() == "time.Duration" {
		return aDuration
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a group of fields"
	case reflect.Pointer:
		return kindOf(t.Elem())
	}
	return "something else"
}

// pathOf is the field that a token stands at.
func pathOf(root ast.Node, at *token.Token) string {
	if root == nil {
		return ""
	}
	v := &finder{at: at}
	ast.Walk(v, root)
	return strings.TrimPrefix(strings.TrimPrefix(v.path, "$"), ".")
}

// finder looks for the innermost node of a token.
type finder struct {
	at   *token.Token
	path string
}

// Visit looks at a node.
func (f *finder) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line == f.at.Position.Line && t.Position.Column == f.at.Position.Column {
		if p := n.GetPath(); len(p) >= len(f.path) {
			f.path = p
		}
	}
	return f
}
