package load

import (
	"bytes"
	"time"
)

// mark begins a stamp. It must not occur elsewhere in what a reader gets.
const mark = '^'

// stampSize is the mark and sixteen digits of microseconds.
const stampSize = 17

// AppendStamp appends the mark and the time as digits.
func AppendStamp(b []byte, now time.Time) []byte {
	var digits [stampSize]byte
	us := uint64(now.UnixMicro())
	for i := stampSize - 1; i > 0; i-- {
		digits[i] = byte('0' + us%10)
		us /= 10
	}
	digits[0] = mark
	return append(b, digits[:]...)
}

// scanner finds stamps in a stream of bytes that comes in pieces.
type scanner struct {
	part [stampSize]byte // the beginning of a stamp that was cut
	have int
}

// scan calls f with the time of every whole stamp; f may be nil. It returns how
// many stamps began.
func (s *scanner) scan(b []byte, f func(us int64)) (n int) {
	if s.have > 0 {
		took := copy(s.part[s.have:], b)
		s.have += took
		b = b[took:]
		if s.have < stampSize {
			return 0
		}
		s.have = 0
		if f != nil {
			f(number(s.part[1:]))
		}
	}
	for {
		i := bytes.IndexByte(b, mark)
		if i < 0 {
			return n
		}
		n++
		if b = b[i:]; len(b) < stampSize {
			s.have = copy(s.part[:], b)
			return n
		}
		if f != nil {
			f(number(b[1:stampSize]))
		}
		b = b[stampSize:]
	}
}

func number(digits []byte) (n int64) {
	for _, d := range digits {
		n = n*10 + int64(d-'0')
	}
	return n
}
