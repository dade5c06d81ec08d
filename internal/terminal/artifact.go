package terminal

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// maxData is how many lines of data without a known form are drawn.
const maxData = 12

// artifactLines draws an artifact: its title, and below it the table, chart, code or data that it has. data is the content of
// its file if that was read.
func artifactLines(a *chat.AgentArtifact, data []byte, width int) []string {
	lines := wrap("◆ "+artifactText(*a), width, "", dim)
	if len(a.Data) > 0 {
		data = a.Data
	}
	if len(data) == 0 || width < 16 {
		return lines
	}
	return append(lines, prefix(dataLines(a, data, width-2), "  ", "  ")...)
}

func dataLines(a *chat.AgentArtifact, data []byte, width int) []string {
	if a.ArtifactType == "table" && strings.Contains(a.MediaType, "csv") && len(a.Data) == 0 {
		if t := readCSV(data); t != nil {
			return t.lines(width)
		}
	}
	if a.ArtifactType == "chart" {
		if c := readChart(data); c != nil {
			return c.lines(width)
		}
		if values := vegaValues(data); values != nil {
			data = values
		}
	}
	if a.ArtifactType == "table" || a.ArtifactType == "chart" {
		if t := readTable(data); t != nil {
			return t.lines(width)
		}
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		return cut(codeLines(text, a.Language, width), maxRows)
	}
	var out bytes.Buffer
	if json.Indent(&out, data, "", "  ") != nil {
		return nil
	}
	return cut(codeLines(out.String(), "", width), maxData)
}

// readTable reads the tables that agents send: columns and rows, or a list of objects.
func readTable(data []byte) *dataTable {
	var list []json.RawMessage
	var columns []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		var t struct {
			Columns []json.RawMessage `json:"columns"`
			Rows    []json.RawMessage `json:"rows"`
			Data    []json.RawMessage `json:"data"`
		}
		if json.Unmarshal(data, &t) != nil || t.Rows == nil && t.Data == nil {
			return nil
		}
		list, columns = t.Rows, t.Columns
		if list == nil {
			list = t.Data
		}
	}
	t := &dataTable{}
	for _, c := range columns {
		t.columns = append(t.columns, columnName(c))
	}
	rows := make([]tableRow, len(list))
	seen := map[string]bool{}
	for i, r := range list {
		rows[i] = readRow(r)
		for _, k := range rows[i].keys {
			if columns == nil && !seen[k] {
				seen[k] = true
				t.columns = append(t.columns, k)
			}
		}
	}
	if t.columns == nil && len(rows) > 0 {
		for i := range rows[0].cells {
			t.columns = append(t.columns, strconv.Itoa(i+1))
		}
	}
	if len(t.columns) == 0 {
		return nil
	}
	t.numeric = make([]bool, len(t.columns))
	for n, name := range t.columns {
		t.numeric[n] = len(rows) > 0 && !slices.ContainsFunc(rows, func(r tableRow) bool {
			cell := r.cell(n, name)
			return len(cell) > 0 && string(cell) != "null" && string(cell) != `""` && !isNumber(cell)
		})
	}
	for _, r := range rows {
		cells := make([]string, len(t.columns))
		for n, name := range t.columns {
			cells[n] = json.Text(r.cell(n, name))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// tableRow is a row of a table: a list of cells, or an object.
type tableRow struct {
	cells  []json.RawMessage
	keys   []string // in the order of the object
	fields map[string]json.RawMessage
}

func readRow(raw json.RawMessage) (r tableRow) {
	if json.Unmarshal(raw, &r.cells) == nil {
		return r
	}
	if json.Unmarshal(raw, &r.fields) != nil {
		r.cells = []json.RawMessage{raw}
		return r
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return r
	}
	for dec.More() {
		key, err := dec.Token()
		var skip json.RawMessage
		if err != nil || dec.Decode(&skip) != nil {
			break
		}
		if k, ok := key.(string); ok {
			r.keys = append(r.keys, k)
		}
	}
	return r
}

func (r *tableRow) cell(n int, column string) json.RawMessage {
	if r.fields != nil {
		return r.fields[column]
	}
	if n < len(r.cells) {
		return r.cells[n]
	}
	return nil
}

// columnName is a column's name, or the label, name or key of an object that describes it.
func columnName(raw json.RawMessage) string {
	var c struct {
		Label string `json:"label"`
		Name  string `json:"name"`
		Key   string `json:"key"`
	}
	if json.Unmarshal(raw, &c) == nil {
		for _, s := range []string{c.Label, c.Name, c.Key} {
			if s != "" {
				return s
			}
		}
	}
	return json.Text(raw)
}

func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// readCSV reads a table with a row of column names.
func readCSV(data []byte) *dataTable {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	all, err := r.ReadAll()
	if err != nil || len(all) == 0 {
		return nil
	}
	t := &dataTable{columns: all[0], numeric: make([]bool, len(all[0]))}
	for n := range t.columns {
		t.numeric[n] = len(all) > 1
	}
	for _, rec := range all[1:] {
		row := make([]string, len(t.columns))
		copy(row, rec)
		for n, c := range row {
			if _, err := strconv.ParseFloat(c, 64); err != nil && c != "" {
				t.numeric[n] = false
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// vegaValues returns the values inside a Vega-Lite specification; nil if there are none.
func vegaValues(data []byte) json.RawMessage {
	var spec struct {
		Data struct {
			Values json.RawMessage `json:"values"`
		} `json:"data"`
		Spec json.RawMessage `json:"spec"`
	}
	if json.Unmarshal(data, &spec) != nil {
		return nil
	}
	if len(spec.Data.Values) == 0 && len(spec.Spec) > 0 {
		return vegaValues(spec.Spec)
	}
	return spec.Data.Values
}
