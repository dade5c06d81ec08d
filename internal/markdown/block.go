package markdown

import "strings"

// maxDepth is how deep quotes and lists are nested; what is deeper is a paragraph.
const maxDepth = 12

// parser holds what all blocks of a text share.
type parser struct {
	open      bool              // the text is still growing
	addresses map[string]string // of link references, by label
	notes     map[string]bool   // labels of the footnotes that are defined
}

// Parse parses a text. open says that the text is still growing: markup that is unfinished at its end is closed, and marks
// that may become the beginning of a block are left out.
func Parse(text string, open bool) []Block {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = expandTabs(l)
	}
	if open {
		lines = dropUnfinished(lines)
	}
	p := &parser{open: open}
	p.define(lines)
	return p.blocks(lines, 0, open)
}

// expandTabs replaces the tabs that indent a line.
func expandTabs(l string) string {
	rest := strings.TrimLeft(l, " \t")
	indent := l[:len(l)-len(rest)]
	if !strings.Contains(indent, "\t") {
		return l
	}
	columns := 0
	for _, c := range indent {
		if columns++; c == '\t' {
			columns = (columns + 3) / 4 * 4
		}
	}
	return strings.Repeat(" ", columns) + rest
}

// dropUnfinished removes a last line that consists of a mark whose meaning depends on what follows it.
func dropUnfinished(lines []string) []string {
	last := len(lines) - 1
	mark := ""
	for _, l := range lines[:last] {
		l = strings.TrimLeft(l, " >")
		if f := fenceOf(l); mark == "" {
			mark = f
		} else if closes(l, mark) {
			mark = ""
		}
	}
	l := strings.TrimLeft(lines[last], " >")
	switch {
	case mark != "" && l != "" && len(l) < len(mark) && strings.HasPrefix(mark, l):
	case mark == "" && l != "" && strings.Trim(l, "-=*+#`~_ ") == "":
	case mark == "" && l != "" && len(l) < 10 && strings.TrimRight(strings.TrimLeft(l, "0123456789"), " ") == "." && last > 0:
	default:
		return lines
	}
	return lines[:last]
}

// define collects the link references of a text, such as "[name]: address", and the labels of its footnotes.
func (p *parser) define(lines []string) {
	mark := ""
	for _, l := range lines {
		l = strings.TrimLeft(l, " >")
		if f := fenceOf(l); mark == "" {
			mark = f
		} else if closes(l, mark) {
			mark = ""
		}
		if mark != "" {
			continue
		}
		if label, _, ok := noteOf(l); ok {
			if p.notes == nil {
				p.notes = map[string]bool{}
			}
			p.notes[strings.ToLower(label)] = true
		}
		if label, address, ok := definition(l); ok {
			if p.addresses == nil {
				p.addresses = map[string]string{}
			}
			if _, known := p.addresses[label]; !known {
				p.addresses[label] = address
			}
		}
	}
}

// definition reads a line that defines a link reference. Footnotes are not links.
func definition(l string) (label, address string, ok bool) {
	if !strings.HasPrefix(l, "[") || strings.HasPrefix(l, "[^") {
		return "", "", false
	}
	label, rest, ok := strings.Cut(l[1:], "]:")
	words := strings.Fields(rest)
	if !ok || label == "" || strings.ContainsAny(label, "[]") || len(words) == 0 || len(words) > 1 && !strings.ContainsAny(words[1][:1], `"'(`) {
		return "", "", false
	}
	return labelOf(label), strings.Trim(words[0], "<>"), true
}

func labelOf(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// noteOf reads the beginning of a footnote, such as "[^label]: text".
func noteOf(l string) (label, text string, ok bool) {
	label, end := noteLabel(l)
	if end == 0 || !strings.HasPrefix(l[end:], ":") {
		return "", "", false
	}
	return label, strings.TrimLeft(l[end+1:], " "), true
}

// maxLabel is how many bytes the label of a footnote has at most.
const maxLabel = 60

// noteLabel reads the mark of a footnote that s begins with, such as "[^label]". end is where the mark ends; 0 when there is none.
func noteLabel(s string) (label string, end int) {
	if !strings.HasPrefix(s, "[^") {
		return "", 0
	}
	n := strings.IndexAny(s[:min(len(s), maxLabel+3)], " \n]")
	if n < 3 || s[n] != ']' {
		return "", 0
	}
	return s[2:n], n + 1
}

// footnotes parses footnotes that follow each other.
func (p *parser) footnotes(lines []string, i, depth int, open bool) (b Block, next int) {
	b.Kind = List
	for i < len(lines) {
		label, first, ok := noteOf(strings.TrimLeft(lines[i], " "))
		if !ok {
			break
		}
		inner, next := noteLines(lines, i, first)
		b.Items = append(b.Items, Item{Note: label, Blocks: p.blocks(inner, depth+1, open && next == len(lines))})
		i = next
	}
	return b, i
}

// noteLines returns the lines of one footnote: those of its first paragraph, and behind a blank line those that are indented by four.
func noteLines(lines []string, i int, first string) (inner []string, next int) {
	inner = append(inner, first)
	blank := false
	for i++; i < len(lines); i++ {
		l, indented := strings.CutPrefix(lines[i], "    ")
		isBlank := strings.TrimSpace(l) == ""
		if !isBlank && !indented && (blank || interrupts(l)) {
			break
		}
		inner, blank = append(inner, l), isBlank
	}
	return inner, i
}

// blocks parses the lines of a text, of a quote or of an item of a list.
func (p *parser) blocks(lines []string, depth int, open bool) []Block {
	var out []Block
	for i := 0; i < len(lines); {
		l := strings.TrimLeft(lines[i], " ")
		if _, _, defines := definition(l); l == "" || defines && len(lines[i])-len(l) < 4 {
			i++
			continue
		}
		b, next := p.block(lines, i, depth, open)
		b.Line = i
		out, i = append(out, b), next
	}
	return out
}

// block parses the block that begins with a line.
func (p *parser) block(lines []string, i, depth int, open bool) (b Block, next int) {
	rest := strings.TrimLeft(lines[i], " ")
	indent := len(lines[i]) - len(rest)
	switch {
	case indent >= 4:
		return indented(lines, i)
	case fenceOf(rest) != "":
		return fenced(lines, i, indent, rest)
	case isRule(rest):
		return Block{Kind: Rule}, i + 1
	}
	if level, title := heading(rest); level > 0 {
		return Block{Kind: Heading, Level: level, Text: p.inline(title, open && i == len(lines)-1)}, i + 1
	}
	if rest[0] == '>' && depth < maxDepth {
		inner, next := quoted(lines, i)
		return Block{Kind: Quote, Blocks: p.blocks(inner, depth+1, open && next == len(lines))}, next
	}
	if m, ok := markOf(lines[i]); ok && depth < maxDepth {
		return p.list(lines, i, m, depth, open)
	}
	if _, _, ok := noteOf(rest); ok && depth < maxDepth {
		return p.footnotes(lines, i, depth, open)
	}
	if b, next, ok := p.table(lines, i, open); ok {
		return b, next
	}
	return p.paragraph(lines, i, depth, open)
}

// fenceOf returns the fence that a line begins with.
func fenceOf(l string) string {
	if !strings.HasPrefix(l, "```") && !strings.HasPrefix(l, "~~~") {
		return ""
	}
	mark := l[:len(l)-len(strings.TrimLeft(l, l[:1]))]
	if l[0] == '`' && strings.Contains(l[len(mark):], "`") {
		return "" // a code span
	}
	return mark
}

// closes reports whether a line ends the block that a fence began.
func closes(l, mark string) bool {
	l = strings.TrimRight(l, " \t")
	return len(l) >= len(mark) && strings.Trim(l, mark[:1]) == ""
}

func fenced(lines []string, i, indent int, first string) (b Block, next int) {
	mark := fenceOf(first)
	b.Kind = Code
	if words := strings.Fields(first[len(mark):]); len(words) > 0 {
		b.Language = words[0]
	}
	var code []string
	for i++; i < len(lines); i++ {
		l := strings.TrimLeft(lines[i], " ")
		if len(lines[i])-len(l) < 4 && closes(l, mark) {
			i++
			break
		}
		l = lines[i]
		for n := 0; n < indent && strings.HasPrefix(l, " "); n++ {
			l = l[1:]
		}
		code = append(code, l)
	}
	b.Code = strings.Join(code, "\n")
	return b, i
}

func indented(lines []string, i int) (b Block, next int) {
	var code []string
	for ; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) != "" && !strings.HasPrefix(lines[i], "    ") {
			break
		}
		code = append(code, strings.TrimPrefix(lines[i], "    "))
	}
	return Block{Kind: Code, Code: strings.TrimRight(strings.Join(code, "\n"), "\n ")}, i
}

// heading reads a heading that is marked with number signs; level 0 is none.
func heading(l string) (level int, title string) {
	rest := strings.TrimLeft(l, "#")
	level = len(l) - len(rest)
	if level == 0 || level > 6 || rest != "" && rest[0] != ' ' {
		return 0, ""
	}
	title = strings.TrimSpace(rest)
	if t := strings.TrimRight(title, "#"); t == "" || strings.HasSuffix(t, " ") {
		title = strings.TrimSpace(t)
	}
	return level, title
}

func isRule(l string) bool {
	l = strings.ReplaceAll(l, " ", "")
	return len(l) >= 3 && strings.ContainsAny(l[:1], "-*_") && strings.Trim(l, l[:1]) == ""
}

// quoted returns the lines of a quote without their marks.
func quoted(lines []string, i int) (inner []string, next int) {
	text := false // the line before may be continued without a mark
	for ; i < len(lines); i++ {
		l := strings.TrimLeft(lines[i], " ")
		if strings.HasPrefix(l, ">") && len(lines[i])-len(l) < 4 {
			l = strings.TrimPrefix(l[1:], " ")
			inner = append(inner, l)
			text = strings.TrimSpace(l) != "" && fenceOf(strings.TrimLeft(l, " ")) == ""
			continue
		}
		if !text || interrupts(lines[i]) {
			break
		}
		inner = append(inner, lines[i])
	}
	return inner, i
}

// interrupts reports whether a line ends the paragraph before it.
func interrupts(line string) bool {
	l := strings.TrimLeft(line, " ")
	if l == "" {
		return true
	}
	if len(line)-len(l) >= 4 {
		return false
	}
	level, _ := heading(l)
	m, item := markOf(line)
	_, _, note := noteOf(l)
	return note || level > 0 || l[0] == '>' || fenceOf(l) != "" || isRule(l) || item && !m.empty && (!m.ordered || m.number == 1)
}

// paragraph parses a paragraph, or a heading that is underlined.
func (p *parser) paragraph(lines []string, i, depth int, open bool) (b Block, next int) {
	var text []string
	for ; i < len(lines); i++ {
		l := strings.TrimLeft(lines[i], " ")
		if len(text) > 0 {
			if level := underline(l); level > 0 && len(lines[i])-len(l) < 4 {
				return Block{Kind: Heading, Level: level, Text: p.inline(join(text), false)}, i + 1
			}
			if interrupts(lines[i]) && depth < maxDepth || l == "" {
				break
			}
			if _, _, ok := p.table(lines, i, false); ok {
				break
			}
		}
		text = append(text, l)
	}
	return Block{Text: p.inline(join(text), open && i == len(lines))}, i
}

func underline(l string) int {
	l = strings.TrimRight(l, " ")
	switch {
	case l == "":
	case strings.Trim(l, "=") == "":
		return 1
	case strings.Trim(l, "-") == "":
		return 2
	}
	return 0
}

// join joins the lines of a paragraph. Every line break is shown, so the marks of hard breaks are removed.
func join(lines []string) string {
	for i, l := range lines {
		l = strings.TrimRight(l, " ")
		if i < len(lines)-1 && strings.HasSuffix(l, `\`) && !strings.HasSuffix(l, `\\`) {
			l = l[:len(l)-1]
		}
		lines[i] = l
	}
	return strings.Join(lines, "\n")
}
