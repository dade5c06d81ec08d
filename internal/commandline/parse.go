package commandline

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// parser reads the arguments from left to right. It keeps what it has read in the given field of each value.
type parser struct {
	args    []string // that are left
	rest    bool     // -- was read: no flags follow
	command *command // the command that was recognized so far
	next    int      // the argument of command that is read next
}

func (p *parser) parse() error {
	for len(p.args) > 0 {
		arg := p.args[0]
		var err error
		switch {
		case p.rest || !looksLikeFlag(arg):
			err = p.argument()
		case arg == "--":
			p.rest, p.args = true, p.args[1:]
		case strings.HasPrefix(arg, "--"):
			p.args = p.args[1:]
			err = p.longFlag(arg)
		default:
			p.args = p.args[1:]
			err = p.shortFlags(arg[1:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// looksLikeFlag reports whether an argument is a flag, as far as one can see. A single - stands for standard input or output.
func looksLikeFlag(arg string) bool { return strings.HasPrefix(arg, "-") && arg != "-" }

// argument reads what is no flag: an argument of the command, or the name of a command.
func (p *parser) argument() error {
	if p.next < len(p.command.args) {
		v := p.command.args[p.next]
		p.next++
		n := 1
		for v.target.Kind() == reflect.Slice && n < len(p.args) && (p.rest || !looksLikeFlag(p.args[n])) {
			n++
		}
		for _, text := range p.args[:n] {
			if err := v.give(operand{text: text, value: true}); err != nil {
				return err
			}
		}
		p.args = p.args[n:]
		return nil
	}
	var names []string
	for _, c := range p.command.commands {
		if c.name == p.args[0] {
			p.command, p.next, p.args = c, 0, p.args[1:]
			return nil
		}
		names = append(names, c.name)
	}
	return errors.New("unexpected argument " + p.args[0] + similar(p.args[0], names))
}

// longFlag reads --name or --name=value.
func (p *parser) longFlag(arg string) error {
	name, text, ok := strings.Cut(arg, "=")
	v, err := p.find(name)
	switch {
	case err != nil:
		return err
	case ok:
		return v.give(operand{text: text, value: true})
	case v.target.Kind() == reflect.Bool:
		return v.give(operand{text: "true", value: true})
	}
	return v.give(p.operand())
}

// shortFlags reads the letters behind a dash: -w, -n5, or several flags as -fn5.
func (p *parser) shortFlags(letters string) error {
	for letters != "" {
		v, err := p.find("-" + letters[:1])
		if err != nil {
			return err
		}
		letters = letters[1:]
		o := operand{text: letters, value: true}
		switch {
		case v.target.Kind() == reflect.Bool:
			o.text = "true"
		case letters == "":
			o = p.operand()
		default:
			letters = ""
		}
		if err := v.give(o); err != nil {
			return err
		}
	}
	return nil
}

// find returns the flag with a name, such as --json or -n, of the command or one around it.
func (p *parser) find(name string) (*value, error) {
	var names []string
	for _, c := range p.command.fromProgram() {
		for _, v := range c.flags {
			if name == "--"+v.name || v.short != "" && name == "-"+v.short {
				return v, nil
			}
			names = append(names, "--"+v.name)
			if v.short != "" {
				names = append(names, "-"+v.short)
			}
		}
	}
	return nil, errors.New("unknown flag " + name + similar(name, names))
}

// fromProgram returns the program, and the commands down to this one.
func (c *command) fromProgram() (list []*command) {
	for ; c != nil; c = c.parent {
		list = append([]*command{c}, list...)
	}
	return list
}

// operand takes the next argument as the value of a flag.
func (p *parser) operand() operand {
	if len(p.args) == 0 {
		return operand{missing: true}
	}
	o := operand{text: p.args[0]}
	p.args = p.args[1:]
	return o
}

// fill sets the fields of the command, and those of the commands around it, from what was given, the environment and the defaults.
func (c *command) fill() error {
	list := c.fromProgram()
	for _, c := range list {
		for _, v := range slices.Concat(c.flags, c.args) {
			if err := v.fill(); err != nil {
				return err
			}
		}
	}
	for _, c := range list {
		for _, v := range slices.Concat(c.flags, c.args) {
			if err := v.checkEnum(); err != nil {
				return err
			}
		}
	}
	for _, c := range list {
		var missing []string
		for _, v := range c.flags {
			if v.required && !v.set {
				missing = append(missing, v.summary())
			}
		}
		if slices.Sort(missing); missing != nil {
			return errors.New("missing flags: " + strings.Join(missing, ", "))
		}
	}
	return c.checkComplete()
}

// checkComplete reports arguments that are missing, or that a command around others was named alone.
func (c *command) checkComplete() error {
	var args, missing []string
	for _, v := range c.args {
		if v.required && !v.set {
			args = append(args, v.summary())
		}
	}
	if args != nil {
		return fmt.Errorf("expected %q", strings.Join(args, " "))
	}
	for _, c := range c.commands {
		missing = append(missing, strconv.Quote(c.name))
	}
	switch {
	case len(missing) == 0:
		return nil
	case len(missing) == 1:
		return errors.New("expected " + missing[0])
	case len(missing) > 5:
		missing = append(missing[:5], "...")
	}
	return errors.New("expected one of " + strings.Join(missing, ", "))
}

// similar is the end of an error about an unknown name: the names that may have been meant.
func similar(name string, names []string) string {
	var close []string
	for _, n := range names {
		if strings.HasPrefix(n, name) || distance(n, name) <= 2 {
			close = append(close, strconv.Quote(n))
		}
	}
	switch len(close) {
	case 0:
		return ""
	case 1:
		return ", did you mean " + close[0] + "?"
	}
	return ", did you mean one of " + strings.Join(close, ", ") + "?"
}

// distance is how many letters must be added, removed or replaced to get from one text to the other.
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	row := make([]int, len(b)+1) // the distances of a[:i] to each b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
