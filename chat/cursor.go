package chat

import (
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/internal/text"
)

// Cursor says what a reader has: all events up to Seq, and a number of bytes of each
// open block. Its text is made of URL-safe characters: 42, or 42~b7.120~b9.4.
type Cursor struct {
	Seq    Seq
	Blocks []Mark // in the order in which the blocks were begun
}

// Mark is how many bytes of an open block a reader has.
type Mark struct {
	Block BlockID
	Bytes int
}

// maxMarks bounds what a cursor may claim; a session has few open blocks.
const maxMarks = 256

// ParseCursor reads a cursor's text.
func ParseCursor(s string) (Cursor, error) {
	bad := Errorf(Invalid, "%q is not a cursor: use a sequence such as 42, or the id of the last frame", text.Clip(s, 80))
	seq, rest, more := strings.Cut(s, "~")
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil || n > uint64(MaxSeq) || seq == "" || len(seq) > 1 && seq[0] == '0' {
		return Cursor{}, bad
	}
	c := Cursor{Seq: Seq(n)}
	for more {
		var mark string
		mark, rest, more = strings.Cut(rest, "~")
		block, count, ok := strings.Cut(mark, ".")
		b, err := strconv.ParseUint(count, 10, 31)
		if !ok || err != nil || BlockID(block).Validate() != nil || len(c.Blocks) == maxMarks {
			return Cursor{}, bad
		}
		c.Blocks = append(c.Blocks, Mark{BlockID(block), int(b)})
	}
	return c, nil
}

// String is the cursor's text.
func (c Cursor) String() string { return string(c.Append(nil)) }

// Append appends the cursor's text.
func (c Cursor) Append(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(c.Seq), 10)
	for _, m := range c.Blocks {
		b = append(b, '~')
		b = append(b, m.Block...)
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(m.Bytes), 10)
	}
	return b
}

// Bytes is how much of a block the reader has.
func (c Cursor) Bytes(block BlockID) int {
	for _, m := range c.Blocks {
		if m.Block == block {
			return m.Bytes
		}
	}
	return 0
}

// PassEvent moves the cursor over an event; block is the one it finishes, if any.
func (c *Cursor) PassEvent(seq Seq, block BlockID) {
	c.Seq = seq
	if block != "" {
		c.Blocks = slices.DeleteFunc(c.Blocks, func(m Mark) bool { return m.Block == block })
	}
}

// PassPiece moves the cursor over a preview piece that ends at end.
func (c *Cursor) PassPiece(block BlockID, end int) {
	for i := range c.Blocks {
		if c.Blocks[i].Block == block {
			c.Blocks[i].Bytes = end
			return
		}
	}
	c.Blocks = append(c.Blocks, Mark{block, end})
}

// MarshalJSON writes the cursor's text.
func (c Cursor) MarshalJSON() ([]byte, error) { return []byte(`"` + c.String() + `"`), nil }

// UnmarshalJSON reads the cursor's text, or a plain sequence.
func (c *Cursor) UnmarshalJSON(b []byte) (err error) {
	*c, err = ParseCursor(strings.Trim(string(b), `"`))
	return err
}
