package json

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// plan describes the struct fields of a type and of the types in it. nil means that there are none.
type plan struct {
	elem   *plan             // of a list or map: the plan of its elements
	fields map[string]*field // of a struct: by exact name
	folded map[string]bool   // of a struct: the names as encoding/json compares them
}

type field struct {
	index int // counts the fields of the struct
	plan  *plan
	typ   reflect.Type
}

var (
	plans     sync.Map // reflect.Type → *plan
	planning  sync.Mutex
	readsJSON = reflect.TypeFor[json.Unmarshaler]()
	readsText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// planOf returns the plan of what a pointer of type t points to.
func planOf(t reflect.Type) *plan {
	if t == nil {
		return nil
	}
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	planning.Lock()
	defer planning.Unlock()
	p := newPlan(t, map[reflect.Type]*plan{})
	plans.Store(t, p)
	return p
}

func newPlan(t reflect.Type, seen map[reflect.Type]*plan) *plan {
	if p, ok := seen[t]; ok {
		return p
	}
	// A type with its own UnmarshalJSON gets the bytes as they are; the method uses this package, too.
	if t.Kind() != reflect.Pointer && (reflect.PointerTo(t).Implements(readsJSON) || reflect.PointerTo(t).Implements(readsText)) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return newPlan(t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Map:
		// The plan is registered before that of its elements: a type may contain itself.
		p := &plan{}
		seen[t] = p
		if p.elem = newPlan(t.Elem(), seen); p.elem == nil {
			delete(seen, t)
			return nil
		}
		return p
	case reflect.Struct:
		p := &plan{fields: map[string]*field{}, folded: map[string]bool{}}
		seen[t] = p
		p.add(t, seen, 0)
		return p
	}
	return nil
}

// add adds the fields of t, and then those of its embedded structs.
func (p *plan) add(t reflect.Type, seen map[reflect.Type]*plan, depth int) {
	var embedded []reflect.Type
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-":
			continue
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded = append(embedded, inner)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		if p.fields[name] == nil {
			p.fields[name] = &field{index: len(p.fields), plan: newPlan(f.Type, seen), typ: f.Type}
			p.folded[Fold(name)] = true
		}
	}
	for _, e := range embedded {
		if depth < 8 {
			p.add(e, seen, depth+1)
		}
	}
}

// Fold returns the form in which encoding/json compares names that are not equal: without the case of letters.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}

// exact overwrites the names that encoding/json must not use for a field: those that differ from the field's name in the
// case of letters, and those that occur again later in the same object. It returns b itself if there are none, otherwise a
// copy. Invalid JSON is returned as it is; encoding/json then refuses it.
func exact(b []byte, t reflect.Type) []byte {
	p := planOf(t)
	if p == nil {
		return b
	}
	s := scanner{b: b}
	s.value(p, 0)
	if s.bad || len(s.hide) == 0 {
		return b
	}
	out := bytes.Clone(b)
	for _, name := range s.hide {
		for i := name.from; i < name.to; i++ {
			out[i] = 0x7f // allowed in JSON strings, and not used in field names
		}
	}
	return out
}

// maxDepth is how deep encoding/json reads.
const maxDepth = 10000

type span struct{ from, to int }

// scanner reads a JSON value together with its plan.
type scanner struct {
	b    []byte
	i    int
	bad  bool   // it is not JSON
	hide []span // names, without their quotes
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// next skips white space and c. It reports whether c was there.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) value(p *plan, depth int) {
	s.space()
	if s.i == len(s.b) || depth > maxDepth {
		s.bad = true
		return
	}
	switch c := s.b[s.i]; {
	case c == '"':
		s.text()
	case c != '{' && c != '[':
		s.scalar()
	case p == nil || c == '{' && p.fields == nil && p.elem == nil || c == '[' && p.elem == nil:
		s.skip()
	case c == '[':
		s.list(p.elem, depth)
	default:
		s.object(p, depth)
	}
}

func (s *scanner) list(elem *plan, depth int) {
	s.i++
	if s.next(']') {
		return
	}
	for !s.bad {
		s.value(elem, depth+1)
		if s.next(']') {
			return
		}
		s.bad = s.bad || !s.next(',')
	}
}

func (s *scanner) object(p *plan, depth int) {
	s.i++
	if s.next('}') {
		return
	}
	var few [16]span
	last := few[:0] // the last position of each field's name, by the field's index
	for !s.bad {
		s.space()
		name := span{s.i + 1, s.i}
		s.text()
		name.to = s.i - 1
		if s.bad || !s.next(':') {
			s.bad = true
			return
		}
		elem := p.elem
		if p.fields != nil {
			elem = nil
			if f := s.field(p, name); f != nil {
				elem = f.plan
				for len(last) <= f.index {
					last = append(last, span{})
				}
				if last[f.index] != (span{}) {
					s.hide = append(s.hide, last[f.index])
				}
				last[f.index] = name
			}
		}
		s.value(elem, depth+1)
		if s.next('}') {
			return
		}
		s.bad = s.bad || !s.next(',')
	}
}

// field returns the field with this name, nil for none. It hides a name that encoding/json would match with a field.
func (s *scanner) field(p *plan, at span) *field {
	raw := s.b[at.from:at.to]
	if f := p.fields[string(raw)]; f != nil {
		return f
	}
	name := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		if json.Unmarshal(s.b[at.from-1:at.to+1], &name) != nil {
			s.bad = true
			return nil
		}
		if f := p.fields[name]; f != nil {
			return f
		}
	}
	if p.folded[Fold(name)] {
		s.hide = append(s.hide, at)
	}
	return nil
}

// text skips a string.
func (s *scanner) text() {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		s.bad = true
		return
	}
	n := TextEnd(s.b[s.i:])
	s.bad = n == 0
	s.i += n
}

// TextEnd returns the length of the string that b begins with, quotes included, 0 if it
// has no end.
func TextEnd(b []byte) int {
	for i := 1; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// scalar skips a number, true, false or null.
func (s *scanner) scalar() {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] < utf8.RuneSelf && strings.IndexByte(",}] \n\t\r", s.b[s.i]) < 0 {
		s.i++
	}
	s.bad = s.bad || s.i == from
}

// skip skips a list or an object without fields.
func (s *scanner) skip() {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			if s.text(); s.bad {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return
			}
		}
		s.i++
	}
	s.bad = true
}
