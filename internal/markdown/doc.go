// Package markdown parses the Markdown that agents write: CommonMark without raw HTML, and of GitHub's additions tables, task
// lists, footnotes and strikethrough. It is written for display: [Parse] accepts a text that is still growing and closes what is
// unfinished at its end, and a line break inside a paragraph is kept.
//
// The work is proportional to the length of the text; nesting is limited to [maxDepth] levels. Texts are returned as they
// are: entities are decoded, so a caller that prints to a terminal must remove control characters from the result.
//
// A library would not do: goldmark 1.8 knows no unfinished texts, and takes quadratic time for some (1.4 s for 50 kB of "[a](", 1.7 s
// for 50 kB of "> "), while a terminal parses the end of a text again for each piece.
package markdown

// Kind says what a block is.
type Kind int

// The kinds of block.
const (
	Paragraph Kind = iota
	Heading
	Code
	Quote
	List
	TableBlock
	Rule
)

// Block is a part of a text that begins on a line of its own.
type Block struct {
	Kind  Kind
	Line  int    // where it begins in what contains it, counted from 0
	Text  []Span // of a paragraph or heading; a line break is a span with the text "\n"
	Level int    // of a heading, 1 to 6

	Code     string // without the last line break
	Language string // the first word behind the fence; may be empty

	Blocks []Block // in a quote

	Items   []Item // of a list, or footnotes that follow each other
	Ordered bool
	Start   int  // the number of the first item of an ordered list
	Loose   bool // blank lines separate the items

	Table *Table
}

// Item is an entry of a list.
type Item struct {
	Blocks []Block
	Task   bool   // it has a checkbox
	Done   bool   // which is ticked
	Note   string // its label, if it is a footnote
}

// Table has rows that are as long as Head.
type Table struct {
	Align []Align
	Head  [][]Span
	Rows  [][][]Span
}

// Align is the alignment of a column.
type Align int

// The alignments of a column.
const (
	Unaligned Align = iota
	Left
	Center
	Right
)

// Style is a set of attributes of a text.
type Style int

// The attributes of a text.
const (
	Bold Style = 1 << iota
	Italic
	Strike
	Mono    // a code span
	Link    // the text of a link or of an image
	Address // the address of the link before it, when it differs from the link's text
)

// Span is a text in one style.
type Span struct {
	Text  string
	Style Style
}

// Plain returns the text of spans without their styles.
func Plain(spans []Span) string {
	n := 0
	for _, s := range spans {
		n += len(s.Text)
	}
	b := make([]byte, 0, n)
	for _, s := range spans {
		b = append(b, s.Text...)
	}
	return string(b)
}
