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
	start := 0 // of text without markup
	flush := func(end int) {
		if end > start {
			in.add(src[start:end], 0)
		}
	}
	for i := 0; i < len(src); {
		n := 0 // how many bytes the markup at i has
		switch c := src[i]; c {
		case '$':
			if end := mathEnd(src, i); end > 0 {
				flush(i)
				in.add(src[i:end], 0)
				n = end - i
			}
		case '\\':
			if end := mathEnd(src, i); end > 0 {
				flush(i)
				in.add(src[i:end], 0)
				n = end - i
			} else if i+1 < len(src) && isPunct(src[i+1]) {
				flush(i)
				in.add(src[i+1:i+2], 0)
				n = 2
			}
		case '`':
			run := runLength(src[i:])
			text, end, ok := in.codeSpan(i, run, open)
			if !ok {
				i += run // the marks are text
				continue
			}
			flush(i)
			in.add(text, Mono)
			n = end - i
		case '*', '_', '~':
			run := runLength(src[i:])
			flush(i)
			in.delimiter(i, run)
			n = run
		case '!', '[':
			at := i
			if c == '!' {
				if i+1 >= len(src) || src[i+1] != '[' {
					break
				}
				at++
			}
			flush(i)
			in.openBracket(src[i:at+1], at+1)
			n = at + 1 - i
		case ']':
			flush(i)
			start = i
			if end, ok := in.link(i, open); ok {
				n = end - i
			}
		case '<':
			if address, end, ok := autolink(src, i); ok {
				flush(i)
				in.add(address, Link)
				n = end - i
			} else if n = lineBreak(src[i:]); n > 0 {
				flush(i)
				in.add("\n", 0)
			}
		case '&':
			if end := strings.IndexByte(src[i:min(len(src), i+40)], ';'); end > 1 {
				if text := html.UnescapeString(src[i : i+end+1]); text != src[i:i+end+1] {
					flush(i)
					in.add(text, 0)
					n = end + 1
				}
			}
		case 'h':
			if address, ok := bareAddress(src, i); ok {
				flush(i)
				in.add(address, Link)
				n = len(address)
			}
		}
		if n == 0 {
			i++
			continue
		}
		i += n
		start = i
	}
	flush(len(src))
	if open {
		in.closeBracket()
	}
	in.emphasis(0, open)
	return in.spans()
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
