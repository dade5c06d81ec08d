package terminal

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-hq/parley/internal/markdown"
)

var codeStyle = lipgloss.NewStyle().Foreground(lipgloss.Color("6"))

// markdown lays out a text of an agent. open says that the text may end within markup.
func (d *painter) markdown(text string, open bool, width int) []string {
	return d.blocks(markdown.Parse(Sanitize(text), open), max(8, width), 0)
}

// growth is the beginning of a text that is being written, laid out. Blocks that are followed by two others do not change any
// more, so only the end of the text is parsed and drawn for every piece.
type growth struct {
	width int
	text  string // sanitized
	lines []string
}

// growing lays out a text that is being written.
func (d *painter) growing(g *growth, text string, width int) []string {
	text, width = Sanitize(text), max(8, width)
	if g.width != width || !strings.HasPrefix(text, g.text) {
		*g = growth{width: width}
	}
	rest := text[len(g.text):]
	blocks := markdown.Parse(rest, true)
	if n := len(blocks) - 2; n > 0 {
		g.lines = join(g.lines, d.blocks(blocks[:n], width, 0))
		g.text = text[:len(g.text)+lineStart(rest, blocks[n].Line)]
		blocks = blocks[n:]
	}
	return join(g.lines[:len(g.lines):len(g.lines)], d.blocks(blocks, width, 0))
}

// join puts a blank line between two parts of a text.
func join(a, b []string) []string {
	if len(a) > 0 && len(b) > 0 {
		a = append(a, "")
	}
	return append(a, b...)
}

// lineStart is the offset of a line of a text.
func lineStart(text string, line int) int {
	at := 0
	for range line {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	return at
}

// withoutMarkup is a text without its Markdown, for rows of one line.
func withoutMarkup(text string) string {
	d := newPainter(lipgloss.NewStyle(), true)
	var b strings.Builder
	for _, l := range d.markdown(text, true, len(text)+8) {
		b.WriteString(ansi.Strip(l) + "\n")
	}
	return b.String()
}

// addCursor shows that a text is still being written.
func addCursor(lines []string, width int) []string {
	last := len(lines) - 1
	if last < 0 || ansi.StringWidth(lines[last]) >= width {
		return append(lines, "▌")
	}
	lines[last] += "▌"
	return lines
}

// ruleWidth is the length of a thematic break, which must not look like the line above the input.
const ruleWidth = 24

// painter draws Markdown. Every text that it draws is sanitized again, because entities such as &#27; become characters
// when they are parsed.
type painter struct {
	base   lipgloss.Style
	plain  bool // base changes nothing
	ticks  bool // code keeps its backticks, because there are no colours
	styles map[markdown.Style]lipgloss.Style
}

func newPainter(base lipgloss.Style, ticks bool) *painter {
	return &painter{base: base, plain: base.Render("x") == "x", ticks: ticks, styles: map[markdown.Style]lipgloss.Style{}}
}

// blocks draws blocks with blank lines between them.
func (d *painter) blocks(list []markdown.Block, width, depth int) []string {
	var lines []string
	for i, b := range list {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, d.block(b, width, depth)...)
	}
	return lines
}

func (d *painter) block(b markdown.Block, width, depth int) []string {
	switch b.Kind {
	case markdown.Heading:
		return newPainter(d.base.Bold(true).Underline(b.Level == 1), d.ticks).text(b.Text, width)
	case markdown.Code:
		return codeLines(b.Code, b.Language, width)
	case markdown.Quote:
		return prefix(d.blocks(b.Blocks, max(8, width-2), depth), dim.Render("│ "), dim.Render("│ "))
	case markdown.List:
		return d.list(b, width, depth)
	case markdown.TableBlock:
		return d.table(b.Table, width)
	case markdown.Rule:
		return []string{dim.Render(strings.Repeat("─", min(width, ruleWidth)))}
	}
	return d.text(b.Text, width)
}

// codeLines draws a block of code. Lines that are too long continue on the next line, so that nothing is lost.
func codeLines(code, language string, width int) []string {
	var lines []string
	if language = OneLine(language); language != "" {
		lines = append(lines, dim.Render(Clip("  ── "+language+" ──", width)))
	}
	code = strings.ReplaceAll(Sanitize(code), "\t", "    ")
	for l := range strings.SplitSeq(code, "\n") {
		for part := range strings.SplitSeq(ansi.Hardwrap(l, max(8, width-2), true), "\n") {
			lines = append(lines, "  "+codeStyle.Render(part))
		}
	}
	return lines
}

func (d *painter) list(b markdown.Block, width, depth int) []string {
	var lines []string
	bullets := []string{"• ", "◦ ", "▪ "}
	indent := len(fmt.Sprint(b.Start+len(b.Items)-1)) + 2
	for i, it := range b.Items {
		mark := bullets[depth%len(bullets)]
		if b.Ordered {
			mark = fmt.Sprintf("%*d. ", indent-2, b.Start+i)
		}
		switch {
		case it.Note != "":
			mark = Clip("["+OneLine(it.Note)+"]", max(4, width/3)) + " "
		case it.Task && it.Done:
			mark = good.Render("☑") + " "
		case it.Task:
			mark = "☐ "
		}
		if b.Loose && i > 0 {
			lines = append(lines, "")
		}
		n := ansi.StringWidth(mark)
		var inner []string
		for j, part := range it.Blocks {
			if j > 0 && (b.Loose || part.Kind != markdown.List) {
				inner = append(inner, "")
			}
			inner = append(inner, d.block(part, max(8, width-n), depth+1)...)
		}
		if len(inner) == 0 {
			inner = []string{""}
		}
		lines = append(lines, prefix(inner, mark, strings.Repeat(" ", n))...)
	}
	return lines
}

// prefix puts a text before each line.
func prefix(lines []string, first, rest string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		if i == 0 {
			out[i] = first + l
		} else {
			out[i] = rest + l
		}
	}
	return out
}

// style is the style of spans.
func (d *painter) style(s markdown.Style) lipgloss.Style {
	st, ok := d.styles[s]
	if !ok {
		st = d.base
		if s&markdown.Bold != 0 {
			st = st.Bold(true)
		}
		if s&markdown.Italic != 0 {
			st = st.Italic(true)
		}
		if s&markdown.Strike != 0 {
			st = st.Strikethrough(true)
		}
		if s&markdown.Mono != 0 {
			st = st.Foreground(codeStyle.GetForeground())
		}
		if s&markdown.Link != 0 {
			st = st.Underline(true)
		}
		if s&markdown.Address != 0 {
			st = dim
		}
		d.styles[s] = st
	}
	return st
}

// text breaks spans into lines.
func (d *painter) text(spans []markdown.Span, width int) []string {
	var lines []string
	for _, l := range d.wrap(spans, width) {
		lines = append(lines, d.render(l))
	}
	return lines
}

func (d *painter) render(line []markdown.Span) string {
	var b strings.Builder
	for _, s := range line {
		if s.Style == 0 && d.plain {
			b.WriteString(s.Text)
		} else {
			b.WriteString(d.style(s.Style).Render(s.Text))
		}
	}
	return b.String()
}

// shown is the text of a span as it is drawn.
func (d *painter) shown(s markdown.Span) string {
	text := strings.ReplaceAll(Sanitize(s.Text), "\t", "    ")
	switch {
	case s.Style&markdown.Mono != 0 && d.ticks:
		return "`" + text + "`"
	case s.Style&markdown.Address != 0:
		return " (" + OneLine(text) + ")"
	}
	return text
}

// wrap breaks spans into lines of at most so many columns, between words where possible.
func (d *painter) wrap(spans []markdown.Span, width int) [][]markdown.Span {
	w := wrapper{width: width}
	for _, s := range spans {
		text := d.shown(s)
		for text != "" {
			n := strings.IndexAny(text, " \n")
			if n < 0 {
				n = len(text)
			}
			if n > 0 {
				w.word = append(w.word, markdown.Span{Text: text[:n], Style: s.Style})
				w.wordWidth += ansi.StringWidth(text[:n])
				text = text[n:]
				continue
			}
			w.endWord()
			if text[0] == '\n' {
				w.endLine()
			} else {
				w.gap = append(w.gap, markdown.Span{Text: " ", Style: s.Style})
			}
			text = text[1:]
		}
	}
	w.endWord()
	w.endLine()
	return w.lines
}

// wrapper is the state of wrap.
type wrapper struct {
	width     int
	lines     [][]markdown.Span
	line      []markdown.Span
	lineWidth int
	gap       []markdown.Span // the spaces behind the line; they are dropped at a break
	word      []markdown.Span // a word may have several styles
	wordWidth int
}

func (w *wrapper) endLine() {
	w.lines = append(w.lines, w.line)
	w.line, w.lineWidth, w.gap = nil, 0, nil
}

func (w *wrapper) endWord() {
	if len(w.word) == 0 {
		return
	}
	if w.lineWidth > 0 && w.lineWidth+len(w.gap)+w.wordWidth > w.width {
		w.endLine()
	}
	w.put(w.gap...)
	w.lineWidth += len(w.gap)
	if w.lineWidth+w.wordWidth <= w.width {
		w.put(w.word...)
		w.lineWidth += w.wordWidth
	} else {
		w.breakWord()
	}
	w.gap, w.word, w.wordWidth = nil, nil, 0
}

// breakWord distributes a word that is wider than a line over several lines.
func (w *wrapper) breakWord() {
	for _, s := range w.word {
		rest := s.Text
		for n := 0; n < len(rest); {
			c, columns := ansi.FirstGraphemeCluster(rest[n:], ansi.GraphemeWidth)
			if w.lineWidth > 0 && w.lineWidth+columns > w.width {
				w.put(markdown.Span{Text: rest[:n], Style: s.Style})
				w.endLine()
				rest, n = rest[n:], 0
			}
			n += len(c)
			w.lineWidth += columns
		}
		w.put(markdown.Span{Text: rest, Style: s.Style})
	}
}

// put adds spans to the line and joins those of the same style.
func (w *wrapper) put(spans ...markdown.Span) {
	for _, s := range spans {
		if last := len(w.line) - 1; last >= 0 && w.line[last].Style == s.Style {
			w.line[last].Text += s.Text
		} else {
			w.line = append(w.line, s)
		}
	}
}
