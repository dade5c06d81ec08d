package markdown

import (
	"html"
	"strings"
)

// node is a piece of a text while its markup is parsed.
type node struct {
	text  string
	style Style
	delim byte // '*', '_' or '~' of an unmatched mark; 0 for text
	run   int  // how many equal marks stand together
	opens bool
	ends  bool
	begin [3]int // how many ranges of bold, italic and struck text begin behind this node
	end   [3]int // how many end before it
	open  int    // how many links begin behind it
	close int    // how many end before it
}

var ranged = [3]Style{Bold, Italic, Strike}

// inlines parses the text of one block.
type inlines struct {
	*parser
	src      string
	start    int // of the text without markup that is not in nodes yet
	nodes    []node
	brackets []bracket
	ticks    map[int]int // length of a run of backticks: where the last such run begins
}

// inline parses the text of a paragraph, heading or cell. open says that the text is still growing.
func (p *parser) inline(src string, open bool) []Span {
	if src == "" {
		return nil
	}
	if open {
		src = strings.TrimRight(src, "*_~\\")
	}
	in := &inlines{parser: p, src: src}
	for i := 0; i < len(src); {
		switch n := in.markup(i, open); {
		case n > 0:
			i += n
			in.start = i
		case src[i] == '`':
			i += runLength(src[i:]) // marks that are text
		default:
			i++
		}
	}
	in.flush(len(src))
	if open {
		in.closeBracket()
	}
	in.emphasis(0, open)
	return in.spans()
}

// flush adds the text without markup that ends at end.
func (in *inlines) flush(end int) {
	if end > in.start {
		in.add(in.src[in.start:end], 0)
	}
	in.start = end
}

// markup adds the markup that begins at i, with the text before it, and returns its length in bytes; 0 if none begins there.
func (in *inlines) markup(i int, open bool) int {
	src := in.src
	put := func(text string, style Style, n int) int {
		in.flush(i)
		in.add(text, style)
		return n
	}
	switch c := src[i]; c {
	case '$', '\\':
		if end := mathEnd(src, i); end > 0 {
			return put(src[i:end], 0, end-i)
		}
		if c == '\\' && i+1 < len(src) && isPunct(src[i+1]) {
			return put(src[i+1:i+2], 0, 2)
		}
	case '`':
		if text, end, ok := in.codeSpan(i, runLength(src[i:]), open); ok {
			return put(text, Mono, end-i)
		}
	case '*', '_', '~':
		run := runLength(src[i:])
		in.flush(i)
		in.delimiter(i, run)
		return run
	case '!', '[':
		if text, end, ok := in.noteRef(i, open); ok {
			return put(text, 0, end-i)
		}
		at := i
		if c == '!' {
			at++
		}
		if at < len(src) && src[at] == '[' {
			in.flush(i)
			in.openBracket(src[i:at+1], at+1)
			return at + 1 - i
		}
	case ']':
		in.flush(i)
		if end, ok := in.link(i, open); ok {
			return end - i
		}
	case '<':
		if address, end, ok := autolink(src, i); ok {
			return put(address, Link, end-i)
		}
		if n := lineBreak(src[i:]); n > 0 {
			return put("\n", 0, n)
		}
	case '&':
		if end := strings.IndexByte(src[i:min(len(src), i+40)], ';'); end > 1 {
			if text := html.UnescapeString(src[i : i+end+1]); text != src[i:i+end+1] {
				return put(text, 0, end+1)
			}
		}
	case 'h':
		if address, ok := bareAddress(src, i); ok {
			return put(address, Link, len(address))
		}
	}
	return 0
}

// maxFormula is how many bytes a formula has at most, so that the time of a text with many unfinished ones stays linear.
const maxFormula = 2000

// mathEnd is where the formula ends that begins at i, with its marks; 0 when none does. What is in a formula is not markup.
func mathEnd(src string, i int) int {
	for _, m := range [][2]string{{"$$", "$$"}, {`\[`, `\]`}, {`\(`, `\)`}, {"$", "$"}} {
		if !strings.HasPrefix(src[i:], m[0]) {
			continue
		}
		from := i + len(m[0])
		for at := from; at < min(len(src), from+maxFormula); at++ {
			if strings.HasPrefix(src[at:], m[1]) {
				end := at + len(m[1])
				if at == from || m[0] == "$" && (isSpace(src[from]) || isSpace(src[at-1]) || i > 0 && isWord(src[i-1]) || end < len(src) && isWord(src[end]) || !strings.ContainsAny(src[from:at], `\^_{}=`)) {
					return 0
				}
				return end
			}
			if src[at] == '\\' {
				at++
			} else if src[at] == '\n' && m[0] == "$" {
				break
			}
		}
		return 0
	}
	return 0
}

// codeSpan returns the code whose run of backticks begins at i, and where the span ends. In a text that is still
// growing a span without its closing run reaches to the end.
func (in *inlines) codeSpan(i, run int, open bool) (text string, end int, ok bool) {
	if end, ok = in.codeEnd(i+run, run); ok {
		return codeText(in.src[i+run : end]), end + run, true
	}
	if open {
		return codeText(strings.TrimRight(in.src[i+run:], "`")), len(in.src), true
	}
	return "", 0, false
}

// noteRef reads a reference to a footnote. In a text that is still growing the footnote may follow, and a mark without its end has no text yet.
func (in *inlines) noteRef(i int, open bool) (text string, end int, ok bool) {
	label, n := noteLabel(in.src[i:])
	switch {
	case n > 0:
		return "[" + label + "]", i + n, (in.open || in.notes[strings.ToLower(label)]) && !strings.HasPrefix(in.src[i+n:], "(")
	case open && strings.HasPrefix(in.src[i:], "[^") && !strings.ContainsAny(in.src[i:min(len(in.src), i+maxLabel+3)], "] \n"):
		return "", len(in.src), true
	}
	return "", 0, false
}

// openBracket adds the mark [ or ![ of a possible link whose text begins at at.
func (in *inlines) openBracket(mark string, at int) {
	in.add(mark, 0)
	if in.brackets = append(in.brackets, bracket{node: len(in.nodes) - 1, at: at}); len(in.brackets) > maxBrackets {
		in.brackets = in.brackets[1:]
	}
}

func (in *inlines) add(text string, style Style) {
	in.nodes = append(in.nodes, node{text: text, style: style})
}

func runLength(s string) int {
	n := 1
	for n < len(s) && s[n] == s[0] {
		n++
	}
	return n
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

// isWord reports whether c is part of a word or an amount of money.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '$' || c >= 0x80
}

func isPunct(c byte) bool {
	return c >= '!' && c <= '/' || c >= ':' && c <= '@' || c >= '[' && c <= '`' || c >= '{' && c <= '~'
}

// codeEnd returns where the run of backticks begins that ends a code span.
func (in *inlines) codeEnd(from, run int) (int, bool) {
	if in.ticks == nil {
		in.ticks = map[int]int{}
		for i := 0; i < len(in.src); {
			if in.src[i] != '`' {
				i++
				continue
			}
			n := runLength(in.src[i:])
			in.ticks[n] = i
			i += n
		}
	}
	if last, ok := in.ticks[run]; !ok || last < from {
		return 0, false
	}
	for i := from; ; {
		i += strings.IndexByte(in.src[i:], '`')
		n := runLength(in.src[i:])
		if n == run {
			return i, true
		}
		i += n
	}
}

func codeText(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if len(s) > 2 && s[0] == ' ' && s[len(s)-1] == ' ' && strings.TrimSpace(s) != "" {
		s = s[1 : len(s)-1]
	}
	return s
}

// spans joins neighbours of the same style.
func (in *inlines) spans() []Span {
	var out []Span
	var text strings.Builder // of the last span
	var depth [3]int
	var style Style
	links := 0
	finish := func() {
		if text.Len() > 0 {
			out = append(out, Span{text.String(), style})
			text.Reset()
		}
	}
	for _, n := range in.nodes {
		links -= n.close
		own := n.style
		for k := range ranged {
			depth[k] -= n.end[k]
			if depth[k] > 0 {
				own |= ranged[k]
			}
		}
		if links > 0 && own&Address == 0 {
			own |= Link
		}
		if n.text != "" {
			if own != style {
				finish()
			}
			style = own
			text.WriteString(n.text)
		}
		for k := range ranged {
			depth[k] += n.begin[k]
		}
		links += n.open
	}
	finish()
	return out
}
