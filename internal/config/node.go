package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// mapping is a node as a mapping; the parser has two forms for it.
func mapping(n ast.Node) (*ast.MappingNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n, true
	case *ast.MappingValueNode:
		return ast.Mapping(n.Start, false, n), true
	}
	return nil, false
}

// field is the value of a key, nil when there is none.
func field(m *ast.MappingNode, key string) ast.Node {
	for _, v := range m.Values {
		if v.Key.String() == key {
			return v.Value
		}
	}
	return nil
}

// with returns a mapping with only those keys; without returns one with all others.
func with(m *ast.MappingNode, keys []string) *ast.MappingNode {
	return filter(m, func(key string) bool { return slices.Contains(keys, key) })
}

func without(m *ast.MappingNode, keys ...string) *ast.MappingNode {
	return filter(m, func(key string) bool { return !slices.Contains(keys, key) })
}

func filter(m *ast.MappingNode, keep func(key string) bool) *ast.MappingNode {
	c := *m
	c.Values = nil
	for _, v := range m.Values {
		if keep(v.Key.String()) {
			c.Values = append(c.Values, v)
		}
	}
	return &c
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 0
	}
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	return t.Position.Line
}
