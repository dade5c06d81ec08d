// Package jsontest has tests that every decoder of what clients send passes.
package jsontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Names checks that a decoder takes the members of an object by their exact names. sample is an object that the
// decoder accepts; each of its members gets others beside it, with the same value type and the name in other letters.
func Names[T any](t *testing.T, sample string, decode func([]byte) (T, error)) {
	t.Helper()
	want, err := decode([]byte(sample))
	if err != nil {
		t.Fatalf("%s: %v", sample, err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(sample), &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		for _, other := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			evil := fmt.Sprintf("%q:%s", other, twin(value))
			for _, text := range []string{"{" + evil + "," + sample[1:], sample[:len(sample)-1] + "," + evil + "}"} {
				if got, err := decode([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s\n is read as %+v, %v\n not as   %+v", text, got, err, want)
				}
			}
		}
	}
}

// twin is another value of the same kind.
func twin(v []byte) string {
	switch v[0] {
	case '"':
		return `"EVIL"`
	case '{':
		return `{}`
	case '[':
		return `[]`
	case 't':
		return `false`
	case 'f', 'n':
		return `true`
	}
	return "9" + string(bytes.TrimLeft(v, "-0"))
}

// Errors checks that the words of a decoder's errors name no Go types. Each field of T, at every depth, is given values
// of every kind.
func Errors[T any](t *testing.T, decode func([]byte) (T, error)) {
	t.Helper()
	for _, frame := range frames(reflect.TypeFor[T](), 0) {
		for _, value := range []string{`"x"`, `7`, `1.5`, `-1`, `1e400`, `true`, `null`, `{}`, `[]`, `[7]`, `["x"]`, `{"a":`} {
			text := strings.Replace(frame, "?", value, 1)
			_, err := decode([]byte(text))
			if err == nil {
				continue
			}
			words := strings.ReplaceAll(err.Error(), text, "")
			for _, bad := range []string{"Go ", "json:", "unmarshal", "Unmarshal", "reflect", "interface", "int64", "uint", "float64", "RawMessage", "chat.", " struct"} {
				if strings.Contains(words, bad) {
					t.Errorf("%s: %q has %q", text, err, bad)
				}
			}
		}
	}
}

// frames lists objects with a question mark in the place of each field.
func frames(t reflect.Type, depth int) (list []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return frames(t.Elem(), depth)
	case reflect.Slice, reflect.Array:
		for _, f := range frames(t.Elem(), depth) {
			list = append(list, "["+f+"]")
		}
	case reflect.Struct:
		if depth > 3 {
			return nil
		}
		if depth == 0 {
			list = append(list, "?")
		}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				list = append(list, frames(f.Type, depth+1)...)
				continue
			}
			if name == "" || name == "-" {
				continue
			}
			list = append(list, fmt.Sprintf("{%q:?}", name))
			for _, inner := range frames(f.Type, depth+1) {
				list = append(list, fmt.Sprintf("{%q:%s}", name, inner))
			}
		}
	}
	return list
}
