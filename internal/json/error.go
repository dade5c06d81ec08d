package json

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"
)

// UnmarshalTypeError is the error for a value of the wrong kind.
type UnmarshalTypeError struct {
	Field string // the path in the JSON, such as questions.options; "" is the whole value
	Value string // what the JSON has there, such as "number" or "number 1.5"
	Want  string // what should be there, with its article
}

func (e *UnmarshalTypeError) Error() string {
	name := "it"
	if e.Field != "" {
		name = "field " + e.Field
	}
	return name + " cannot be " + article(e.Value) + ": it must be " + e.Want
}

func article(noun string) string {
	switch {
	case noun == "":
		return "that"
	case strings.IndexByte("aeiou", noun[0]) >= 0:
		return "an " + noun
	}
	return "a " + noun
}

var (
	errTime  = errors.New("a time is written like 2026-01-02T15:04:05Z")
	errBytes = errors.New("a value that is not valid base64 stands where bytes are wanted")
	errValue = errors.New("a value has the wrong form")
)

// plainError rewrites an error of encoding/json without the names of Go types. Other errors are returned as they are: they
// come from an UnmarshalJSON method or from the reader.
func plainError(err error, t reflect.Type) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &UnmarshalTypeError{Field: pathIn(t, wrong.Field), Value: wrong.Value, Want: wanted(wrong.Type)}
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok || strings.HasPrefix(err.Error(), "Time.UnmarshalJSON") {
		return errTime
	}
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return errBytes
	}
	if strings.HasPrefix(err.Error(), "json: ") {
		return errValue
	}
	return err
}

// pathIn removes the names of embedded structs from a path: in the JSON they do not exist.
func pathIn(t reflect.Type, path string) string {
	var names []string
	for name := range strings.SplitSeq(path, ".") {
		for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
			t = t.Elem()
		}
		if t == nil || t.Kind() != reflect.Struct {
			break
		}
		p := planOf(reflect.PointerTo(t))
		if p == nil {
			break
		}
		if f := p.fields[name]; f != nil {
			names = append(names, name)
			t = f.typ
		}
	}
	return strings.Join(names, ".")
}

// wanted names the kind of JSON value that a type needs.
func wanted(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string with base64"
		}
		return "an array"
	case reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "something else"
}
