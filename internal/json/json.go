// Package json is encoding/json with four differences. All code of this module reads and writes JSON with it;
// imports_test.go in the root refuses encoding/json elsewhere.
//
//   - A member is a field's value only when its name equals the field's name exactly. encoding/json also takes
//     {"TEXT": …} for the field text, so that the log, which keeps what was sent, and the readers of other languages
//     see another value than this server.
//   - Of several members with the same name the last one counts, wholly. encoding/json merges objects.
//   - Errors name the field by its path in the JSON and never a Go type, so their text can be shown to a client.
//   - Marshal and NewEncoder write < > & as they are, which takes one byte instead of six.
package json

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"sync"
)

// These are the same as in encoding/json.
type (
	RawMessage  = json.RawMessage
	Number      = json.Number
	Delim       = json.Delim
	Token       = json.Token
	Encoder     = json.Encoder
	Marshaler   = json.Marshaler
	Unmarshaler = json.Unmarshaler
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
	b, _ = exact(b, t)
	return plainError(json.Unmarshal(b, v), t)
}

// writer is an encoder with the buffer that it writes to.
type writer struct {
	buf bytes.Buffer
	enc *json.Encoder
}

var writers = sync.Pool{New: func() any {
	w := &writer{}
	w.enc = NewEncoder(&w.buf)
	return w
}}

// maxKept is the largest buffer that is kept for the next call of Marshal.
const maxKept = 64 << 10

// Marshal writes v as JSON.
func Marshal(v any) ([]byte, error) {
	w := writers.Get().(*writer)
	w.buf.Reset()
	err := w.enc.Encode(v)
	var b []byte
	if err == nil {
		b = bytes.Clone(bytes.TrimSuffix(w.buf.Bytes(), []byte("\n")))
	}
	if w.buf.Cap() <= maxKept {
		writers.Put(w)
	}
	return b, err
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

// InputOffset is the place behind the last token or value.
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
	b, _ := exact(raw, t)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return plainError(dec.Decode(v), t)
}
