package chat

import (
	"time"

	"github.com/parley-hq/parley/internal/text"
)

// At is a position: microseconds since the epoch. It rises strictly within a
// session over events and preview pieces alike, so a dialect that has only one
// number to resume from can use it.
type At int64

// AtOf is the position of a time.
func AtOf(t time.Time) At { return At(t.UnixMicro()) }

// Time is the time of a position.
func (a At) Time() time.Time { return time.UnixMicro(int64(a)).UTC() }

// stampLayout is the only form of a time on our own wire: UTC, six decimals.
const stampLayout = "2006-01-02T15:04:05.000000Z"

// String is the position as a timestamp.
func (a At) String() string { return string(a.appendStamp(make([]byte, 0, len(stampLayout)))) }

// appendStamp writes the layout by hand: it stands on the path of every append,
// and the general way costs five times as much.
func (a At) appendStamp(b []byte) []byte {
	t := a.Time()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(b, stampLayout)
	}
	hour, minute, second := t.Clock()
	b = append(b, byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-')
	b = append(appendTwo(b, int(month)), '-')
	b = append(appendTwo(b, day), 'T')
	b = append(appendTwo(b, hour), ':')
	b = append(appendTwo(b, minute), ':')
	b = append(appendTwo(b, second), '.')
	micro := t.Nanosecond() / 1000
	b = appendTwo(b, micro/10000)
	b = appendTwo(b, micro/100%100)
	b = appendTwo(b, micro%100)
	return append(b, 'Z')
}

func appendTwo(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// MarshalJSON writes a timestamp.
func (a At) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, len(stampLayout)+2), '"')
	return append(a.appendStamp(b), '"'), nil
}

// UnmarshalJSON reads any RFC 3339 timestamp.
func (a *At) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var t time.Time
	if err := t.UnmarshalJSON(b); err != nil {
		return Errorf(Invalid, "%s is not an RFC 3339 time such as 2026-01-02T15:04:05Z", text.Clip(string(b), 64))
	}
	*a = AtOf(t)
	return nil
}
