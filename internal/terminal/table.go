package terminal

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-hq/parley/internal/markdown"
)

// minColumn is how narrow a column may become before columns are left out.
const minColumn = 6

// grid is a table that is drawn with aligned columns.
type grid struct {
	align []markdown.Align
	head  [][]markdown.Span
	rows  [][][]markdown.Span
	clip  bool // cells that are too wide are cut instead of wrapped
}

func (d *painter) table(t *markdown.Table, width int) []string {
	return d.grid(grid{align: t.Align, head: t.Head, rows: t.Rows}, width)
}

// grid draws a table in so many columns of the screen. Columns on the right that do not fit are left out and counted.
func (d *painter) grid(g grid, width int) []string {
	widths := d.widths(g, width)
	lines := newPainter(d.base.Bold(true), d.ticks).row(g, g.head, widths)
	rules := make([]string, len(widths))
	for i, w := range widths {
		rules[i] = strings.Repeat("─", w)
	}
	lines = append(lines, dim.Render(strings.Join(rules, "─┼─")))
	for _, r := range g.rows {
		lines = append(lines, d.row(g, r, widths)...)
	}
	if rest := len(g.head) - len(widths); rest > 0 {
		lines = append(lines, dim.Render(Clip("… "+Count(rest, "more column", "more columns"), width)))
	}
	return lines
}

// widths distributes the width over the columns; the widest become narrower first.
func (d *painter) widths(g grid, width int) []int {
	var widths []int
	for i := range g.head[:min(len(g.head), width/4+1)] {
		w := d.cellWidth(g.head[i])
		for _, r := range g.rows {
			w = max(w, d.cellWidth(r[i]))
		}
		widths = append(widths, min(max(1, w), width))
	}
	least := func() (n int) {
		for _, w := range widths {
			n += min(w, minColumn) + 3
		}
		return n - 3
	}
	for len(widths) > 1 && least() > width {
		widths = widths[:len(widths)-1]
	}
	room := width - 3*(len(widths)-1)
	for {
		sum, widest := 0, 0
		for i, w := range widths {
			if sum += w; w > widths[widest] {
				widest = i
			}
		}
		if sum <= room || widths[widest] <= 1 {
			return widths
		}
		widths[widest]--
	}
}

// cellWidth is the width of the widest line of a cell.
func (d *painter) cellWidth(cell []markdown.Span) int {
	widest, n := 0, 0
	for _, s := range cell {
		for i, l := range strings.Split(d.shown(s), "\n") {
			if i > 0 {
				n = 0
			}
			n += ansi.StringWidth(l)
			widest = max(widest, n)
		}
	}
	return widest
}

// row draws one row, which has as many lines as its highest cell.
func (d *painter) row(g grid, row [][]markdown.Span, widths []int) []string {
	height := 1
	cells := make([][]string, len(widths))
	for i, w := range widths {
		if g.clip {
			cells[i] = []string{d.render([]markdown.Span{{Text: Clip(OneLine(markdown.Plain(row[i])), w)}})}
		} else {
			cells[i] = d.text(row[i], w)
		}
		height = max(height, len(cells[i]))
	}
	lines := make([]string, height)
	for n := range lines {
		var b strings.Builder
		for i, w := range widths {
			text := ""
			if n < len(cells[i]) {
				text = cells[i][n]
			}
			gap := max(0, w-ansi.StringWidth(text))
			before := 0
			switch g.align[i] {
			case markdown.Right:
				before = gap
			case markdown.Center:
				before = gap / 2
			}
			if i > 0 {
				b.WriteString(dim.Render(" │ "))
			}
			b.WriteString(strings.Repeat(" ", before) + text)
			if i < len(widths)-1 {
				b.WriteString(strings.Repeat(" ", gap-before))
			}
		}
		lines[n] = b.String()
	}
	return lines
}

// maxRows is how many rows of a table that is an artifact are drawn.
const maxRows = 20

// dataTable is the table of an artifact.
type dataTable struct {
	columns []string
	rows    [][]string
	numeric []bool
}

// lines draws the table. Rows beyond maxRows are counted.
func (t *dataTable) lines(width int) []string {
	g := grid{clip: true}
	for i, c := range t.columns {
		g.head = append(g.head, []markdown.Span{{Text: c}})
		align := markdown.Left
		if t.numeric[i] {
			align = markdown.Right
		}
		g.align = append(g.align, align)
	}
	for _, r := range t.rows[:min(len(t.rows), maxRows)] {
		row := make([][]markdown.Span, len(r))
		for i, c := range r {
			row[i] = []markdown.Span{{Text: OneLine(c)}}
		}
		g.rows = append(g.rows, row)
	}
	lines := newPainter(lipgloss.NewStyle(), false).grid(g, width)
	if rest := len(t.rows) - maxRows; rest > 0 {
		lines = append(lines, dim.Render(fmt.Sprintf("… %s", Count(rest, "more row", "more rows"))))
	}
	return lines
}
