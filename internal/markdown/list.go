package markdown

import (
	"strconv"
	"strings"
)

// mark is the beginning of an item of a list.
type mark struct {
	ordered bool
	char    byte // of a bullet, or behind a number
	number  int
	indent  int // of the item's text
	empty   bool
}

func markOf(line string) (m mark, ok bool) {
	l := strings.TrimLeft(line, " ")
	at := len(line) - len(l)
	if l == "" || at >= 4 {
		return m, false
	}
	n := 1
	switch {
	case strings.IndexByte("-*+", l[0]) >= 0:
		m.char = l[0]
	case l[0] >= '0' && l[0] <= '9':
		n = len(l) - len(strings.TrimLeft(l, "0123456789"))
		if n > 9 || n == len(l) || l[n] != '.' && l[n] != ')' {
			return m, false
		}
		m.ordered, m.char = true, l[n]
		m.number, _ = strconv.Atoi(l[:n]) // digits only
		n++
	default:
		return m, false
	}
	rest := l[n:]
	text := strings.TrimLeft(rest, " ")
	gap := len(rest) - len(text)
	switch {
	case text == "":
		m.empty = true
		gap = 1
	case gap == 0:
		return m, false
	case gap > 4:
		gap = 1 // the item begins with indented code
	}
	m.indent = at + n + gap
	return m, true
}

// list parses the items of a list.
func (p *parser) list(lines []string, i int, first mark, depth int, open bool) (b Block, next int) {
	b = Block{Kind: List, Ordered: first.ordered, Start: first.number}
	for i < len(lines) {
		m, ok := markOf(lines[i])
		if !ok || m.ordered != first.ordered || m.char != first.char || isRule(strings.TrimLeft(lines[i], " ")) {
			break
		}
		inner, next := itemLines(lines, i, m)
		end := len(inner)
		for end > 1 && strings.TrimSpace(inner[end-1]) == "" {
			end--
		}
		last := open && next == len(lines)
		it := Item{}
		inner[0], it.Task, it.Done = checkbox(inner[0], last && end == 1)
		it.Blocks = p.blocks(inner[:end], depth+1, last)
		b.Items = append(b.Items, it)
		i = next
		if i < len(lines) && end < len(inner) {
			m, ok := markOf(lines[i])
			b.Loose = b.Loose || ok && m.ordered == first.ordered && m.char == first.char
		}
	}
	return b, i
}

// itemLines returns the lines of one item without its mark and indentation.
func itemLines(lines []string, i int, m mark) (inner []string, next int) {
	inner = append(inner, lines[i][min(m.indent, len(lines[i])):])
	blank, fence := m.empty, fenceOf(inner[0])
	for i++; i < len(lines); i++ {
		l := strings.TrimLeft(lines[i], " ")
		indent := len(lines[i]) - len(l)
		switch {
		case l == "":
			if m.empty && len(inner) == 1 {
				return inner, i // an item begins with at most one blank line
			}
			inner, blank = append(inner, ""), true
			continue
		case indent >= m.indent:
			l = lines[i][m.indent:]
			if t := strings.TrimLeft(l, " "); fence == "" {
				fence = fenceOf(t)
			} else if closes(t, fence) {
				fence = ""
			}
			inner = append(inner, l)
		case blank || fence != "" || interrupts(lines[i]):
			return inner, i
		default:
			if _, ok := markOf(lines[i]); ok {
				return inner, i
			}
			inner = append(inner, lines[i])
		}
		blank = false
	}
	return inner, i
}

// checkbox removes the checkbox of an item. An open text may end within it.
func checkbox(l string, open bool) (rest string, task, done bool) {
	if open && l != "" && (strings.HasPrefix("[ ]", strings.TrimRight(l, " ")) || l == "[x" || l == "[x]") {
		return "", true, strings.HasPrefix(l, "[x")
	}
	if len(l) < 4 || l[0] != '[' || l[2] != ']' || l[3] != ' ' || strings.IndexByte(" xX", l[1]) < 0 {
		return l, false, false
	}
	return l[4:], true, l[1] != ' '
}
