package fields

import (
	"bytes"
	"math"
	"testing"
)

func TestFieldsAreReadAsTheyWereWritten(t *testing.T) {
	b := AppendNumber(nil, 0)
	b = AppendNumber(b, math.MaxUint64)
	b = AppendBytes(b, "text")
	b = AppendBytes(b, []byte(nil))
	b = append(b, 7)
	r := NewReader(b)
	if r.Number(0) != 0 || r.Number(math.MaxUint64) != math.MaxUint64 || string(r.Bytes(4)) != "text" || len(r.Bytes(4)) != 0 || r.Byte() != 7 || !r.Done() {
		t.Fatalf("%+v", r)
	}
	if r.Byte() != 0 || r.OK() || r.Done() {
		t.Fatal("a missing byte was read")
	}
}

func TestWrongFieldsAreRefused(t *testing.T) {
	for name, read := range map[string]func(r *Reader){
		"padded number":   func(r *Reader) { r.Number(math.MaxUint64) },
		"number too high": func(r *Reader) { r.Take(2); r.Number(8) },
		"text too long":   func(r *Reader) { r.Take(3); r.Bytes(3) },
		"text missing":    func(r *Reader) { r.Take(3); r.Bytes(100) },
		"count too high":  func(r *Reader) { r.Take(3); r.Count() },
	} {
		r := NewReader([]byte{0x80, 0, 9, 4, 'a', 'b', 'c'})
		read(r)
		if r.OK() || r.Byte() != 0 {
			t.Errorf("%s was read", name)
		}
	}
}

// Whatever is read as a number is written with the same bytes.
func FuzzNumber(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0x80, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		n := r.Number(math.MaxUint64)
		if used := b[:len(b)-r.Left()]; r.OK() && !bytes.Equal(AppendNumber(nil, n), used) {
			t.Fatalf("%x is read as %d", used, n)
		}
	})
}
