package hub

import (
	"slices"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/core"
)

// encodedRing keeps the encoded bytes of a ring's entries for one encoding, in segments
// that only grow at their end and never beyond their capacity. So bytes that readers
// have never move, and a reader gets all it lacks of a segment as one slice. Segments
// are in rising order; there are gaps where no reader needed the entries.
type encodedRing struct {
	align   uint64 // a new segment begins at a multiple of it, where possible
	segs    []*segment
	size    int // capacity of the next segment
	encoded int // entries encoded, ever
}

// packUnit is how much text is packed together at most, unless one entry alone is
// larger.
const packUnit = 16 << 10

// Bounds of a segment's capacity; a larger entry gets a segment of its size.
const (
	minSegment = 4 << 10
	maxSegment = 64 << 10
)

// segment holds the bytes of the entries from first up to next.
type segment struct {
	first, next uint64
	buf         []byte
	units       []unit
	packs       []Pack
	full        bool
}

// unit is a boundary where a reader can begin or end: after each entry, or after each
// packed group.
type unit struct {
	next  uint32 // entries since the segment's first
	end   uint32 // bytes
	packs uint32 // packs
}

// cut is a part of a segment.
type cut struct {
	bytes []byte
	packs []Pack
	next  uint64 // index after the last entry in it
}

// take returns the bytes of the entries from index from on, as many as one
// segment has and not beyond limit, encoding what has not been encoded. from is
// in the ring and below limit. ok is false when no unit begins at from or ends
// by limit: then the reader encodes for itself up to the returned next.
func (l *encodedRing) take(c *codec, r *ring, from, limit uint64) (part cut, ok bool) {
	s, bound := l.find(r, from)
	for {
		for !s.full && s.next < min(limit, bound) {
			l.extend(c, r, s, min(limit, bound))
		}
		if s.next > from {
			break
		}
		s, bound = l.find(r, from) // it was full
	}
	begin := unit{}
	if from > s.first {
		i, on := s.boundary(from)
		if !on {
			return cut{next: min(limit, s.first+uint64(s.units[i].next))}, false
		}
		begin = s.units[i]
	}
	end := s.units[len(s.units)-1]
	if s.next > limit {
		i, on := s.boundary(limit)
		if !on {
			i--
		}
		if i < 0 || s.first+uint64(s.units[i].next) <= from {
			return cut{next: limit}, false
		}
		end = s.units[i]
	}
	return cut{
		bytes: s.buf[begin.end:end.end:end.end],
		packs: s.packs[begin.packs:end.packs:end.packs],
		next:  s.first + uint64(end.next),
	}, true
}

// boundary finds the unit that ends before index i; if none does, it returns the
// unit that i lies in.
func (s *segment) boundary(i uint64) (int, bool) {
	return slices.BinarySearchFunc(s.units, uint32(i-s.first), func(u unit, want uint32) int {
		return int(u.next) - int(want)
	})
}

// find returns the segment that contains from, or the one to add it to, and the index
// at which that segment must end.
func (l *encodedRing) find(r *ring, from uint64) (s *segment, bound uint64) {
	bound = r.end()
	start := max(from-from%l.align, r.first)
	i := len(l.segs) - 1
	for ; i >= 0; i-- {
		s := l.segs[i]
		if s.first <= from {
			if from < s.next || start <= s.next && !s.full {
				return s, bound
			}
			start = max(start, s.next)
			break
		}
		bound = s.first
	}
	need := 0
	for j := start; j < bound && need < maxSegment; j++ {
		need += cost(r.at(j))
	}
	// Many segments exist because slow readers need them: larger ones take fewer
	// writes. Small ones are enough for readers that keep up.
	if len(l.segs) >= 4 {
		l.size = min(2*l.size, maxSegment)
	} else {
		l.size = max(l.size/2, minSegment)
	}
	s = &segment{first: start, next: start, buf: make([]byte, 0, max(l.size, min(need, maxSegment), cost(r.at(start))))}
	l.segs = slices.Insert(l.segs, i+1, s)
	return s, bound
}

// extend encodes one more entry, or packs one more group.
func (l *encodedRing) extend(c *codec, r *ring, s *segment, limit uint64) {
	if len(s.units) > 0 && cap(s.buf)-len(s.buf) < cost(r.at(s.next)) {
		s.full = true
		return
	}
	next := s.next
	b, pack := s.buf, Pack{}
	if c.pack == nil {
		e, n := c.group(r.slice(next, limit))
		b = appendEntry(c.enc, b, e)
		next += uint64(n)
	} else {
		b, pack, next = c.packed(b, r, next, limit)
	}
	l.encoded += int(next - s.next)
	if cap(b) != cap(s.buf) && len(s.units) > 0 {
		// The append has moved the buffer: the new bytes begin the next segment.
		s.full = true
		fresh := b[len(s.buf):]
		moved := &segment{first: s.next, next: s.next, buf: make([]byte, 0, max(l.size, len(fresh)))}
		moved.buf = append(moved.buf, fresh...)
		moved.close(next, pack)
		l.segs = slices.Insert(l.segs, slices.Index(l.segs, s)+1, moved)
		return
	}
	s.buf = b
	s.close(next, pack)
}

// close ends a unit.
func (s *segment) close(next uint64, p Pack) {
	if p.Len > 0 {
		s.packs = append(s.packs, p)
	}
	s.next = next
	s.units = append(s.units, unit{uint32(next - s.first), uint32(len(s.buf)), uint32(len(s.packs))})
}

// forget drops the segments that end at or before index i. A reader that writes one of
// them keeps its bytes until then.
func (l *encodedRing) forget(i uint64) {
	n := 0
	for n < len(l.segs) && l.segs[n].next <= i {
		n++
	}
	l.segs = slices.Delete(l.segs, 0, n)
}

// codec is the state of one encoding of a topic while it has readers.
type codec struct {
	enc     Encoding
	pack    Packer // nil when bytes are not packed
	most    int    // characters of pieces that are joined; 0 for none
	readers int
	past    encodedRing // events, with plain cursors, for readers that catch up
	live    encodedRing // events and pieces, for those that have caught up
	scratch []byte
}

func newCodec(enc Encoding) *codec {
	c := &codec{enc: enc}
	c.pack, _ = enc.(Packer)
	if g, ok := enc.(core.Grouper); ok {
		c.most = g.Group()
	}
	// Readers that catch up begin at any event; aligned segments can be shared.
	c.past.align, c.live.align = 64, 1
	return c
}

// packed packs the entries from i on, about packUnit of text, not beyond limit.
func (c *codec) packed(dst []byte, r *ring, i, limit uint64) ([]byte, Pack, uint64) {
	plain := c.scratch[:0]
	for i < limit && len(plain) < packUnit {
		if len(plain) > 0 && len(plain)+cost(r.at(i)) > packUnit {
			break
		}
		e, n := c.group(r.slice(i, limit))
		plain = appendEntry(c.enc, plain, e)
		i += uint64(n)
	}
	dst, p := packInto(c.pack, dst, plain)
	c.scratch = plain
	if cap(plain) > 4*packUnit {
		c.scratch = nil
	}
	return dst, p, i
}

// group joins the first entry with the following ones, if the encoding is a
// core.Grouper, and returns the joined entry and how many it replaces. Only adjacent
// entries are joined: a reader that has the joined entry has all up to its position.
func (c *codec) group(entries []Entry) (*Entry, int) {
	e := &entries[0]
	if c.most == 0 || e.Piece == nil {
		return e, 1
	}
	n, size, chars := 1, len(e.Piece.Text), utf8.RuneCountInString(e.Piece.Text)
	for n < len(entries) {
		p, last := entries[n].Piece, entries[n-1].Piece
		if p == nil || p.Block != last.Block || p.Offset != last.End {
			break
		}
		if chars += utf8.RuneCountInString(p.Text); chars > c.most {
			break
		}
		size += len(p.Text)
		n++
	}
	if n == 1 {
		return e, 1
	}
	text := make([]byte, 0, size)
	for i := range n {
		text = append(text, entries[i].Piece.Text...)
	}
	one, piece := entries[n-1], *entries[n-1].Piece
	piece.Offset, piece.Text = e.Piece.Offset, string(text)
	one.Piece = &piece
	return &one, n
}

func packInto(p Packer, dst, plain []byte) ([]byte, Pack) {
	if len(plain) == 0 {
		return dst, Pack{}
	}
	n := len(dst)
	dst, pack := p.Pack(dst, plain)
	pack.Len = len(dst) - n
	return dst, pack
}

// appendEntry encodes one entry.
func appendEntry(enc Encoding, dst []byte, e *Entry) []byte {
	if e.Piece != nil {
		return enc.AppendPiece(dst, e)
	}
	return enc.AppendEvent(dst, e)
}
