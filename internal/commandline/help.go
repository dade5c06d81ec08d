package commandline

import (
	"fmt"
	"go/doc/comment"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// WriteHelp writes the help of the command that was chosen, in the width of the terminal.
func (c *Call) WriteHelp(out io.Writer) error {
	h := &help{width: width(out)}
	root := c.command.parent == nil
	about := c.command.help
	if root {
		about = c.app.Description
	}
	h.line("Usage: " + c.app.Name + " " + c.command.usage())
	h.line("")
	h.lines(wrap(about, h.width, ""))
	if len(c.command.args) > 0 {
		h.line("")
		h.line("Arguments:")
		var rows [][2]string
		for _, v := range c.command.args {
			rows = append(rows, [2]string{v.summary(), v.describe()})
		}
		h.table(rows)
	}
	if len(c.command.commands) > 0 {
		h.line("")
		h.line("Commands:")
		h.table(c.command.commandRows())
	}
	h.flags(c.command)
	if root {
		h.line("")
		h.line(`Run "` + c.app.Name + ` <command> --help" for more information on a command.`)
	}
	_, err := io.WriteString(out, h.text.String())
	return err
}

// help is a help text that is being written.
type help struct {
	width int
	text  strings.Builder
}

func (h *help) line(text string) {
	h.text.WriteString(strings.TrimRight(text, " ") + "\n")
}

func (h *help) lines(list []string) {
	for _, text := range list {
		h.line(text)
	}
}

// flags writes the flags, those without a group first. An empty line separates those of a command from those of the program.
func (h *help) flags(c *command) {
	groups := []string{""}
	seen := map[string][][]*value{}
	for _, c := range c.fromProgram() {
		level := map[string]int{}
		for _, v := range c.flags {
			if _, ok := seen[v.group]; !ok && v.group != "" {
				groups = append(groups, v.group)
			}
			if _, ok := level[v.group]; !ok {
				level[v.group] = len(seen[v.group])
				seen[v.group] = append(seen[v.group], nil)
			}
			seen[v.group][level[v.group]] = append(seen[v.group][level[v.group]], v)
		}
	}
	for _, group := range groups {
		h.line("")
		if group == "" {
			h.line("Flags:")
		} else {
			h.line(group)
		}
		h.table(flagRows(seen[group]))
	}
}

func flagRows(levels [][]*value) (rows [][2]string) {
	indent := ""
	for _, level := range levels {
		for _, v := range level {
			if v.short != "" {
				indent = "    "
			}
		}
	}
	for i, level := range levels {
		if i > 0 {
			rows = append(rows, [2]string{})
		}
		for _, v := range level {
			left := indent + v.summary()
			if v.short != "" {
				left = "-" + v.short + ", " + v.summary()
			}
			rows = append(rows, [2]string{left, v.describe()})
		}
	}
	return rows
}

// commandRows lists the commands that can be called, with those in others.
func (c *command) commandRows() (rows [][2]string) {
	for _, c := range c.commands {
		if len(c.commands) > 0 {
			rows = append(rows, c.commandRows()...)
		} else {
			rows = append(rows, [2]string{c.path, c.help})
		}
	}
	return rows
}

// usage is the form of a command line.
func (c *command) usage() string {
	words := []string{}
	if c.path != "" {
		words = append(words, c.path)
	}
	optional, open := false, 0
	if c.parent != nil {
		for _, v := range c.flags {
			if v.required {
				words = append(words, v.summary())
			}
			optional = optional || !v.required
		}
	}
	for _, v := range c.args {
		text := v.summary()
		if !v.required {
			open++
			text = strings.TrimSuffix(text, "]")
		}
		words = append(words, text)
	}
	if open > 0 {
		words[len(words)-1] += strings.Repeat("]", open)
	}
	if len(c.commands) > 0 {
		words = append(words, "<command>")
	}
	if optional {
		words = append(words, "[flags]")
	}
	return strings.Join(words, " ")
}

// summary names a flag with its value, or an argument.
func (v *value) summary() string {
	if v.flag {
		if v.target.Kind() == reflect.Bool {
			return "--" + v.name
		}
		return "--" + v.name + "=" + v.valueName()
	}
	text := "<" + v.name + ">"
	if v.target.Kind() == reflect.Slice {
		text += " ..."
	}
	if !v.required {
		text = "[" + text + "]"
	}
	return text
}

// valueName stands for the value of a flag.
func (v *value) valueName() string {
	more := ""
	if v.target.Kind() == reflect.Slice {
		more = ",..."
	}
	switch {
	case v.placeholder != "":
		return v.placeholder + more
	case v.hasPreset && v.target.Kind() == reflect.String:
		return strconv.Quote(v.preset)
	case v.hasPreset:
		return v.preset + more
	case v.target.Kind() == reflect.Map:
		return "KEY=VALUE;..."
	case v.target.Kind() == reflect.Slice:
		return strings.ToUpper(v.name) + more
	}
	return strings.ToUpper(v.target.Type().Name())
}

// describe is the help of a value, with its variables.
func (v *value) describe() string {
	if v.envs == nil {
		return v.help
	}
	text, dot := strings.CutSuffix(v.help, ".")
	text = strings.TrimSpace(text + " ($" + strings.Join(v.envs, ", $") + ")")
	if dot {
		text += "."
	}
	return text
}

// table writes two columns. A left one that is too wide has a line of its own.
func (h *help) table(rows [][2]string) {
	const indent, gap = "  ", 4
	whole := h.width - len(indent)
	limit, left := max(30, whole*3/8), 0
	for _, row := range rows {
		if len(row[0]) < limit {
			left = max(left, len(row[0]))
		}
	}
	for _, row := range rows {
		lines := wrap(row[1], whole-left-gap, indent)
		first := indent + row[0]
		if len(row[0]) < limit {
			first = fmt.Sprintf("%s%-*s%s", indent, left+gap, row[0], lines[0])
			lines = lines[1:]
		}
		h.line(first)
		for _, text := range lines {
			h.line(indent + strings.Repeat(" ", left+gap) + text)
		}
	}
}

// wrap breaks a text into lines. Indented lines of the text stay as they are, behind code.
func wrap(text string, width int, code string) []string {
	var parser comment.Parser
	printer := comment.Printer{TextWidth: width, TextCodePrefix: code}
	return strings.Split(strings.TrimRight(string(printer.Text(parser.Parse(text))), "\n"), "\n")
}

// width is how many characters fit into a line.
func width(out io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		return n
	}
	if f, ok := out.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 80
}
