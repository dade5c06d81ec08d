// Package json is encoding/json with four differences. The packages of this module use it; stdJSON in imports_test.go
// lists the tools that may use encoding/json.
//
//   - A member sets a field only if its name equals the field's name exactly. encoding/json also accepts {"TEXT": …} for
//     the field text, so that this server would see another value than clients in other languages.
//   - Of several members with the same name only the last one counts. encoding/json merges objects.
//   - Errors name the field by its path in the JSON and never a Go type, so their text can be shown to a client.
//   - Marshal and NewEncoder write < > & as they are, which takes one byte instead of six.
//
// It also has what is faster or missing there: Fields reads objects without escapes, AppendString writes a text, Same
// compares values.
package json

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
)

// These are the same as in encoding/json.
type (
	RawMessage  = json.RawMessage
	Number      = json.Number
	Delim       = json.Delim
	Token       = json.Token
	Encoder     = json.Encoder
	SyntaxError = json.SyntaxError
)

// Valid reports whether b is valid JSON.
func Valid(b []byte) bool { return json.Valid(b) }

// Compact appends src to dst without insignificant white space.
func Compact(dst *bytes.Buffer, src []byte) error { return json.Compact(dst, src) }

// Indent appends an indented form of src to dst.
func Indent(dst *bytes.Buffer, src []byte, prefix, indent string) error {
	return json.Indent(dst, src, prefix, indent)
}

// Unmarshal reads b into v, which is a pointer.
func Unmarshal(b []byte, v any) error {
	t := reflect.TypeOf(v)
	return plainError(json.Unmarshal(exact(b, t), v), t)
}

// Marshal writes v as JSON.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// NotNull returns a value, nil when it is null.
func NotNull(b RawMessage) RawMessage {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	return b
}

// Text returns the content of a JSON string, and any other value as it is written. null is empty.
func Text(b []byte) string {
	var s string
	if Unmarshal(b, &s) == nil {
		return s
	}
	return string(b)
}

// MarshalIndent is Marshal with indentation.
func MarshalIndent(v any, prefix, indent string) ([]byte, error) {
	b, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, b, prefix, indent)
	return out.Bytes(), err
}

// NewEncoder returns an encoder that writes to w.
func NewEncoder(w io.Writer) *Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// Decoder reads JSON values one after the other.
type Decoder struct {
	dec     *json.Decoder
	numbers bool
}

// NewDecoder returns a decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{dec: json.NewDecoder(r)} }

// UseNumber makes the decoder read numbers into interfaces as Number.
func (d *Decoder) UseNumber() {
	d.numbers = true
	d.dec.UseNumber()
}

// Token returns the next token; io.EOF after the last.
func (d *Decoder) Token() (Token, error) { return d.dec.Token() }

// More reports whether the current array or object has another element.
func (d *Decoder) More() bool { return d.dec.More() }

// InputOffset is the offset after the last token or value.
func (d *Decoder) InputOffset() int64 { return d.dec.InputOffset() }

// Decode reads the next value into v, which is a pointer; io.EOF after the last.
func (d *Decoder) Decode(v any) error {
	t := reflect.TypeOf(v)
	if planOf(t) == nil {
		return plainError(d.dec.Decode(v), t)
	}
	var raw RawMessage
	if err := d.dec.Decode(&raw); err != nil {
		return err
	}
	if !d.numbers {
		return Unmarshal(raw, v)
	}
	dec := json.NewDecoder(bytes.NewReader(exact(raw, t)))
	dec.UseNumber()
	return plainError(dec.Decode(v), t)
}
