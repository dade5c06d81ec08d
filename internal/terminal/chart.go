package terminal

import (
	"math"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-hq/parley/internal/json"
)

// maxBars is how many bars are drawn; the points of larger charts are drawn as a line of blocks.
const maxBars = 40

// chart is the data of a chart.
type chart struct {
	line   bool
	x      []string
	series []series
}

// series is a row of values; NaN is a missing one.
type series struct {
	name   string
	values []float64
	texts  []string // as they were written
}

// seriesColors are the colours of the series, of which the terminal has few that are readable on every background.
var seriesColors = []lipgloss.Style{
	lipgloss.NewStyle().Foreground(lipgloss.Color("4")), lipgloss.NewStyle().Foreground(lipgloss.Color("3")),
	lipgloss.NewStyle().Foreground(lipgloss.Color("2")), lipgloss.NewStyle().Foreground(lipgloss.Color("5")),
	lipgloss.NewStyle().Foreground(lipgloss.Color("6")), lipgloss.NewStyle().Foreground(lipgloss.Color("1")),
}

// chartData has the names that agents use for the parts of a chart.
type chartData struct {
	Type     string            `json:"type"`
	X        []json.RawMessage `json:"x"`
	Labels   []json.RawMessage `json:"labels"`
	Series   []chartSeries     `json:"series"`
	Datasets []chartSeries     `json:"datasets"`
	Values   []json.RawMessage `json:"values"`
	Data     json.RawMessage   `json:"data"`
}

type chartSeries struct {
	Name   string            `json:"name"`
	Label  string            `json:"label"`
	Values []json.RawMessage `json:"values"`
	Data   []json.RawMessage `json:"data"`
}

// readChart reads the charts that agents send; nil if the data has another form.
func readChart(data []byte) *chart {
	var d chartData
	if json.Unmarshal(data, &d) != nil {
		return nil
	}
	if len(d.Data) > 0 && d.Data[0] == '{' && d.Series == nil && d.Datasets == nil {
		inner := chartData{Type: d.Type}
		if json.Unmarshal(d.Data, &inner) != nil {
			return nil
		}
		d = inner
	}
	list := append(d.Series, d.Datasets...)
	if list == nil && d.Values != nil {
		list = []chartSeries{{Values: d.Values}}
	}
	c := &chart{}
	most, numbers := 0, false
	for _, s := range list {
		values := s.Values
		if values == nil {
			values = s.Data
		}
		one := series{name: s.Name}
		if one.name == "" {
			one.name = s.Label
		}
		for _, v := range values {
			text := json.Text(v)
			n, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsInf(n, 0) {
				n, text = math.NaN(), ""
			}
			numbers = numbers || !math.IsNaN(n)
			one.values, one.texts = append(one.values, n), append(one.texts, text)
		}
		if len(values) > 0 {
			c.series = append(c.series, one)
			most = max(most, len(values))
		}
	}
	if !numbers {
		return nil
	}
	names := append(d.X, d.Labels...)
	for i := range most {
		name := strconv.Itoa(i + 1)
		if i < len(names) {
			name = OneLine(json.Text(names[i]))
		}
		c.x = append(c.x, name)
	}
	c.line = d.Type == "line" || d.Type == "area" || len(c.x)*len(c.series) > maxBars
	return c
}

func (c *chart) lines(width int) []string {
	if c.line {
		return c.sparklines(width)
	}
	return c.bars(width)
}

// bars draws a line for every value: label, bar and number. Negative values are drawn to the left of the axis.
func (c *chart) bars(width int) []string {
	low, high := 0.0, 0.0
	labels, numbers := 0, 0
	label := func(i, n int) string {
		if len(c.series) == 1 {
			return c.x[i]
		}
		return strings.TrimSpace(c.x[i] + " " + OneLine(c.series[n].name))
	}
	for n, s := range c.series {
		for i, v := range s.values {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
			labels = max(labels, ansi.StringWidth(label(i, n)))
			numbers = max(numbers, ansi.StringWidth(s.texts[i]))
		}
	}
	labels = min(labels, max(6, width/3))
	room := max(4, width-labels-numbers-3)
	span := high - low
	if span == 0 {
		span = 1
	}
	left := int(math.Round(float64(room) * (-low / span)))
	var lines []string
	if len(c.series) == 1 && c.series[0].name != "" {
		lines = append(lines, dim.Render(Clip(OneLine(c.series[0].name), width)))
	}
	for i := range c.x {
		for n, s := range c.series {
			if i >= len(s.values) {
				continue
			}
			name := Clip(label(i, n), labels)
			bar := strings.Repeat(" ", left)
			switch v := s.values[i]; {
			case math.IsNaN(v):
			case v < 0:
				cells := min(left, max(1, int(math.Round(float64(room)*(-v/span)))))
				bar = strings.Repeat(" ", left-cells) + seriesColors[n%len(seriesColors)].Render(strings.Repeat("█", cells))
			case v > 0:
				bar += seriesColors[n%len(seriesColors)].Render(eighths(float64(room-left) * (v / high)))
			}
			lines = append(lines, Clip(name+strings.Repeat(" ", labels-ansi.StringWidth(name)+1)+bar+" "+s.texts[i], width))
		}
	}
	return lines
}

// eighths is a bar of so many columns, at least one eighth.
func eighths(columns float64) string {
	n := max(1, int(math.Round(columns*8)))
	bar := strings.Repeat("█", n/8)
	if rest := n % 8; rest > 0 {
		bar += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return bar
}

// sparklines draws a line of blocks for every series, with its range, and the values as a table.
func (c *chart) sparklines(width int) []string {
	names := 0
	for _, s := range c.series {
		names = max(names, ansi.StringWidth(OneLine(s.name)))
	}
	names = min(names, width/3)
	var lines []string
	for n, s := range c.series {
		low, high := math.Inf(1), math.Inf(-1)
		lowText, highText := "", ""
		for i, v := range s.values {
			if v < low {
				low, lowText = v, s.texts[i]
			}
			if v > high {
				high, highText = v, s.texts[i]
			}
		}
		note := " " + OneLine(lowText) + " to " + OneLine(highText)
		name := Clip(OneLine(s.name), names)
		room := max(4, width-names-1-ansi.StringWidth(note))
		line := name + strings.Repeat(" ", names-ansi.StringWidth(name))
		if names > 0 {
			line += " "
		}
		lines = append(lines, Clip(line+seriesColors[n%len(seriesColors)].Render(spark(s.values, low, high, room))+dim.Render(note), width))
	}
	if len(c.x) > 1 {
		lines = append(lines, dim.Render(Clip(c.x[0]+" … "+c.x[len(c.x)-1], width)))
	}
	return append(append(lines, ""), c.table().lines(width)...)
}

// spark draws values as blocks of different heights. More values than columns are drawn as means.
func spark(values []float64, low, high float64, columns int) string {
	columns = min(columns, len(values))
	var b strings.Builder
	for i := range columns {
		sum, count := 0.0, 0
		for _, v := range values[i*len(values)/columns : (i+1)*len(values)/columns] {
			if !math.IsNaN(v) {
				sum += v
				count++
			}
		}
		if count == 0 {
			b.WriteByte(' ')
			continue
		}
		level := 0.0
		if high > low {
			level = (sum/float64(count) - low) / (high - low)
		}
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[max(0, min(7, int(level*7.999)))])
	}
	return b.String()
}

// table is the data of the chart as a table.
func (c *chart) table() *dataTable {
	t := &dataTable{columns: []string{""}, numeric: []bool{false}}
	for _, s := range c.series {
		t.columns, t.numeric = append(t.columns, s.name), append(t.numeric, true)
	}
	for i, x := range c.x {
		row := []string{x}
		for _, s := range c.series {
			text := ""
			if i < len(s.texts) {
				text = s.texts[i]
			}
			row = append(row, text)
		}
		t.rows = append(t.rows, row)
	}
	return t
}
