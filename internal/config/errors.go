package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Error is an error in a configuration.
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

// problem adds file, line and field to an error of the parser; into is the value that it was to read.
func problem(file string, root ast.Node, into any, err error) error {
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
		if v := at.Value; v == "key" || v == "api_key" || v == "token" {
			out.Msg += "; keys do not belong in this file: name an environment variable with key_env, or a file with key_file"
		}
	case errors.As(err, &node):
		at, out.Msg = node.Token, "it should be "+nodeKind(node.Expected)
	case strings.HasPrefix(err.Error(), "time: "):
		at, out.Msg = badDuration(reflect.TypeOf(into), root), "it should be "+aDuration
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

// nodeKind names what the parser expects.
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

// badDuration finds the invalid duration: the error of the parser has no position.
func badDuration(t reflect.Type, n ast.Node) *token.Token {
	if t == nil || n == nil {
		return nil
	}
	if t == reflect.TypeFor[time.Duration]() {
		if s, ok := n.(*ast.StringNode); ok {
			if _, err := time.ParseDuration(s.Value); err != nil {
				return s.GetToken()
			}
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return badDuration(t.Elem(), n)
	case reflect.Slice:
		if list, ok := n.(*ast.SequenceNode); ok {
			for _, v := range list.Values {
				if at := badDuration(t.Elem(), v); at != nil {
					return at
				}
			}
		}
	case reflect.Struct:
		m, ok := mapping(n)
		for i := 0; ok && i < t.NumField(); i++ {
			if at := badDuration(t.Field(i).Type, field(m, t.Field(i).Tag.Get("yaml"))); at != nil {
				return at
			}
		}
	}
	return nil
}

// kindOf names a type in words of YAML.
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

// near reports whether two words differ in case only, or in one letter that is missing, added, replaced or swapped.
func near(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) < 2 && len(b) < 2 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// pathOf is the path of the field of a token.
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
