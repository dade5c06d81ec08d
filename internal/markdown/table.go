package markdown

import "strings"

// table parses a table: a row, a row of dashes with the same number of cells, and more rows. In an open text the row of
// dashes may be unfinished or missing if the row before it begins with a bar.
func (p *parser) table(lines []string, i int, open bool) (b Block, next int, ok bool) {
	first := strings.TrimSpace(lines[i])
	if !strings.Contains(first, "|") {
		return b, i, false
	}
	head := cells(first)
	growing := open && first[0] == '|' && (i+1 == len(lines) || i+2 == len(lines) && strings.Trim(lines[i+1], "|-: ") == "")
	var align []Align
	if i+1 < len(lines) {
		align, ok = aligns(lines[i+1])
	}
	if ok = ok && len(align) == len(head); !ok && !growing {
		return b, i, false
	}
	t := &Table{Align: make([]Align, len(head))}
	copy(t.Align, align)
	for _, c := range head {
		t.Head = append(t.Head, p.inline(c, growing))
	}
	for i = min(i+2, len(lines)); i < len(lines); i++ {
		l := strings.TrimSpace(lines[i])
		if l == "" || interrupts(lines[i]) {
			break
		}
		texts := cells(l)
		row := make([][]Span, len(head))
		for n := range row {
			if n < len(texts) {
				row[n] = p.inline(texts[n], open && i == len(lines)-1 && n == len(texts)-1)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return Block{Kind: TableBlock, Table: t}, i, true
}

// cells splits a row at the bars that are not escaped.
func cells(row string) []string {
	row = strings.TrimPrefix(strings.TrimSpace(row), "|")
	var out []string
	var b strings.Builder
	for i := 0; i < len(row); i++ {
		switch {
		case row[i] == '\\' && i+1 < len(row) && row[i+1] == '|':
			b.WriteByte('|')
			i++
		case row[i] == '|':
			out = append(out, strings.TrimSpace(b.String()))
			b.Reset()
		default:
			b.WriteByte(row[i])
		}
	}
	if rest := strings.TrimSpace(b.String()); rest != "" || len(out) == 0 {
		out = append(out, rest)
	}
	return out
}

// aligns reads the row of dashes below the head of a table.
func aligns(row string) ([]Align, bool) {
	if !strings.Contains(row, "-") || strings.Trim(row, "|-: ") != "" {
		return nil, false
	}
	var out []Align
	for _, c := range cells(row) {
		if c == "" || strings.Trim(strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":"), "-") != "" || !strings.Contains(c, "-") {
			return nil, false
		}
		left, right := strings.HasPrefix(c, ":"), strings.HasSuffix(c, ":")
		switch {
		case left && right:
			out = append(out, Center)
		case right:
			out = append(out, Right)
		case left:
			out = append(out, Left)
		default:
			out = append(out, Unaligned)
		}
	}
	return out, true
}
