package hub

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// block is a block that is being written. Text and ends only grow at their end,
// so parts of them are handed out without copying.
type block struct {
	chat.Block // without Text
	text       strings.Builder
	shown      int // bytes that readers may see; less than the text only while events are unpublished (see fill.go)
}

func (b *block) snapshot() chat.Block {
	out := b.Block
	out.Text = b.text.String()
	out.Ends = b.Ends[:len(b.Ends):len(b.Ends)]
	return out
}

// blocks are the open blocks of a session, in the order in which they were begun.
type blocks []*block

func (bs blocks) find(id chat.BlockID) *block {
	if i := slices.IndexFunc(bs, func(b *block) bool { return b.ID == id }); i >= 0 {
		return bs[i]
	}
	return nil
}

// add appends a piece to its block and returns the part that is new, nil if nothing
// is. Readers do not see a hidden piece yet. gap is true when the piece does not
// continue its block or would make it too large; then nothing is changed.
func (bs *blocks) add(p *chat.Preview, at chat.At, hidden bool) (fresh *chat.Preview, gap bool) {
	b := bs.find(p.Block)
	have := 0
	if b != nil {
		have = b.text.Len()
	}
	end := p.Offset + len(p.Text)
	if p.Offset < 0 || p.Offset > have || end > chat.MaxBlock {
		return nil, true
	}
	text := p.TextAfter(have)
	if text == "" {
		return nil, false
	}
	if !utf8.RuneStart(text[0]) {
		return nil, true // it begins inside a character, so it is not the same text
	}
	if b == nil {
		b = &block{Block: chat.Block{ID: p.Block, Kind: p.Kind, Workstream: p.Workstream, Turn: p.Turn}}
		*bs = append(*bs, b)
	}
	b.text.WriteString(text)
	b.Ends = append(b.Ends, chat.End{Bytes: end, At: at})
	if !hidden {
		b.shown = end
	}
	if have == p.Offset {
		return p, false
	}
	rest := *p
	rest.Offset, rest.End, rest.Text = have, end, text
	return &rest, false
}

func (bs *blocks) finish(id chat.BlockID) {
	if id != "" {
		*bs = slices.DeleteFunc(*bs, func(b *block) bool { return b.ID == id })
	}
}

// marks returns how much of each block readers may see.
func (bs blocks) marks() []chat.Mark {
	if len(bs) == 0 {
		return nil
	}
	marks := make([]chat.Mark, 0, len(bs))
	for _, b := range bs {
		if b.shown > 0 {
			marks = append(marks, chat.Mark{Block: b.ID, Bytes: b.shown})
		}
	}
	return marks
}

// visible returns the blocks as readers may see them.
func (bs blocks) visible() []chat.Block {
	var out []chat.Block
	for _, b := range bs {
		if b.shown > 0 {
			one := b.snapshot()
			one.Text, one.Ends = one.Text[:b.shown], b.seen()
			out = append(out, one)
		}
	}
	return out
}

// seen returns the ends of the pieces that readers may see.
func (b *block) seen() []chat.End {
	n := len(b.Ends)
	for n > 0 && b.Ends[n-1].Bytes > b.shown {
		n--
	}
	return b.Ends[:n:n]
}

// reveal makes hidden text visible and calls each with its pieces, in order of position.
func (bs blocks) reveal(each func(*Entry)) {
	type hidden struct {
		b   *block
		end chat.End
	}
	var all []hidden
	for _, b := range bs {
		for _, end := range b.Ends[len(b.seen()):] {
			all = append(all, hidden{b, end})
		}
	}
	slices.SortFunc(all, func(x, y hidden) int { return cmp.Compare(x.end.At, y.end.At) })
	for _, h := range all {
		one := h.b.snapshot()
		e := pieceOf(&one, h.b.shown, h.end, &chat.Cursor{})
		h.b.shown = h.end.Bytes
		each(&e)
	}
}

func (bs blocks) snapshot() []chat.Block {
	if len(bs) == 0 {
		return nil
	}
	out := make([]chat.Block, len(bs))
	for i, b := range bs {
		out[i] = b.snapshot()
	}
	return out
}

// missing returns as pieces what a reader with this cursor lacks of the open
// blocks, and moves the cursor over them. Without byPosition a block is one
// piece. With it the pieces come in order of position, and only those before
// the position until, if that is not 0; neighbours of one block are joined
// unless every is set.
func missing(open []chat.Block, c *chat.Cursor, byPosition, every bool, until chat.At) []Entry {
	var out []Entry
	if !byPosition {
		for i := range open {
			if have := bytesOf(&open[i], c); have < len(open[i].Text) {
				out = append(out, pieceOf(&open[i], have, open[i].Ends[len(open[i].Ends)-1], c))
			}
		}
		return out
	}
	next := make([]int, len(open)) // per block the first end that the reader lacks
	for i := range open {
		have := bytesOf(&open[i], c)
		next[i], _ = slices.BinarySearchFunc(open[i].Ends, have+1, func(e chat.End, want int) int { return e.Bytes - want })
	}
	for {
		one, other := -1, chat.At(0) // the block with the next piece, and the position of the next piece of another block
		for i := range open {
			if next[i] == len(open[i].Ends) {
				continue
			}
			at := open[i].Ends[next[i]].At
			switch {
			case one < 0:
				one = i
			case at < open[one].Ends[next[one]].At:
				one, other = i, open[one].Ends[next[one]].At
			case other == 0 || at < other:
				other = at
			}
		}
		if one < 0 {
			return out
		}
		ends, last := open[one].Ends, -1
		for k := next[one]; k < len(ends) && (other == 0 || ends[k].At < other || last < 0) && (until == 0 || ends[k].At < until); k++ {
			last = k
			if every {
				break
			}
		}
		if last < 0 {
			return out
		}
		next[one] = last + 1
		out = append(out, pieceOf(&open[one], bytesOf(&open[one], c), ends[last], c))
	}
}

// firstMissingAt returns the position of the first piece of an open block that a reader
// with this cursor lacks, 0 if it lacks none.
func firstMissingAt(open blocks, c *chat.Cursor) (at chat.At) {
	for _, b := range open {
		have := c.Bytes(b.ID)
		ends := b.seen()
		i, _ := slices.BinarySearchFunc(ends, have+1, func(e chat.End, want int) int { return e.Bytes - want })
		if i < len(ends) && (at == 0 || ends[i].At < at) {
			at = ends[i].At
		}
	}
	return at
}

// bytesOf returns how much of a block the reader has, moved back to the beginning of a
// character if the cursor points into one.
func bytesOf(b *chat.Block, c *chat.Cursor) int {
	n := c.Bytes(b.ID)
	for n > 0 && n < len(b.Text) && !utf8.RuneStart(b.Text[n]) {
		n--
	}
	return n
}

// pieceOf makes the piece from offset to end and moves the cursor over it.
func pieceOf(b *chat.Block, offset int, end chat.End, c *chat.Cursor) Entry {
	c.PassPiece(b.ID, end.Bytes)
	return Entry{
		At:    end.At,
		Label: chat.Label{Workstream: b.Workstream},
		Piece: &chat.Preview{
			Block: b.ID, Offset: offset, End: end.Bytes, Text: b.Text[offset:end.Bytes],
			Kind: b.Kind, Workstream: b.Workstream, Turn: b.Turn, At: end.At,
		},
		Cursor: chat.Cursor{Seq: c.Seq, Blocks: slices.Clone(c.Blocks)},
	}
}
