// Package fields writes and reads binary records in which each value has exactly one encoding: numbers of variable length
// without padding, and bytes with their length in front.
package fields

import "encoding/binary"

// AppendNumber appends a number.
func AppendNumber(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }

// AppendBytes appends bytes with their length.
func AppendBytes[T ~[]byte | ~string](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader reads fields. After the first field that is missing or wrong, all are zero; see OK.
type Reader struct {
	rest   []byte
	failed bool
}

// NewReader returns a reader of b.
func NewReader(b []byte) *Reader { return &Reader{rest: b} }

// OK reports whether all fields that were read are there.
func (r *Reader) OK() bool { return !r.failed }

// Done reports whether all fields were there and nothing is left.
func (r *Reader) Done() bool { return !r.failed && len(r.rest) == 0 }

// Left returns the number of bytes that were not read yet.
func (r *Reader) Left() int { return len(r.rest) }

// Fail makes OK false, for a caller that finds a wrong value.
func (r *Reader) Fail() { r.failed = true }

// Take reads n bytes. They share memory with what is read.
func (r *Reader) Take(n int) []byte {
	if r.failed || n < 0 || n > len(r.rest) {
		r.failed = true
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint64 reads a number of eight bytes, the highest first.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Number reads a number of variable length that is at most limit.
func (r *Reader) Number(limit uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.failed || size <= 0 || size > 1 && r.rest[size-1] == 0 || n > limit { // padding would be a second encoding
		r.failed = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// Count reads the number of items that follow. Each item takes at least one byte, so a count that is larger than what is
// left is wrong.
func (r *Reader) Count() int {
	n := r.Number(uint64(len(r.rest)))
	if n > uint64(len(r.rest)) {
		r.failed = true
		return 0
	}
	return int(n)
}

// Bytes reads at most limit bytes with their length. They share memory with what is read.
func (r *Reader) Bytes(limit int) []byte { return r.Take(int(r.Number(uint64(limit)))) }
