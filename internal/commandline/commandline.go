// Package commandline reads command lines into structs whose fields are flags, arguments and commands, and writes their help.
//
// The tags of a field say what it is:
//
//	cmd:""              a struct: a command with the fields of the struct
//	embed:""            an embedded struct: its fields belong to the command around it
//	arg:""              an argument; required unless optional:"" is set. A []string takes all that follow
//	help:"…"            what the help says; ${name} is replaced by App.Vars
//	name:"…"            the name, if it is not that of the field in lower case with dashes
//	short:"n"           a second name of one letter, for -n
//	default:"…"         the value of a flag that is not given
//	env:"A,B"           variables that are used when the flag is not given; the first one that is set counts, also when it is empty
//	enum:"a,b"          the values that are allowed; the default must be one of them
//	required:""         a flag that must be given
//	type:"path"         a file: relative names and ~/ become absolute
//	placeholder:"FILE"  what stands for the value in the help
//	group:"Access"      the title below which the help lists the flag
//	secret:""           a string or a []string that no error shows
//
// Other fields are strings, booleans, integers, floats, durations, []string with commas between the elements, and map[string]string as
// key=value with semicolons between; a backslash before a separator makes it part of an element. Repeated flags add to lists and maps; of others the
// last one counts. The package reads fields by reflection, but calls no methods in this way, because the linker would then keep all
// methods of all types. Fields that are not exported are left alone.
package commandline

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// App is a program with commands.
type App struct {
	Name        string
	Description string
	Vars        map[string]string
}

// Call is a command line that was read.
type Call struct {
	Command any    // pointer to the struct of the command that was chosen
	Path    string // the names of the command and of those around it, such as "cluster status"
	Help    bool   // help is asked for. The struct of the command is not filled then

	app     *App
	command *command
}

// Error is a mistake in a command line.
type Error struct {
	Path string // of the command that was recognized; "" if none was
	text string
}

func (e *Error) Error() string { return e.text }

// Parse reads args into commands, a pointer to a struct. A mistake in the command line is an [*Error]; Parse panics when the tags of commands are wrong.
func (a *App) Parse(commands any, args []string) (*Call, error) {
	root := a.build(&command{target: reflect.ValueOf(commands).Elem()})
	root.flags = append([]*value{{name: "help", short: "h", help: "Show this help.", flag: true, target: reflect.New(reflect.TypeFor[bool]()).Elem()}}, root.flags...)
	p := &parser{args: args, command: root}
	if err := p.parse(); err != nil {
		return nil, &Error{p.command.path, err.Error()}
	}
	call := &Call{Command: p.command.target.Addr().Interface(), Path: p.command.path, Help: root.flags[0].given.IsValid(), app: a, command: p.command}
	if call.Help {
		return call, nil
	}
	if err := p.command.fill(); err != nil {
		return nil, &Error{p.command.path, err.Error()}
	}
	return call, nil
}

// command is the program or one of its commands.
type command struct {
	name, path, help string
	parent           *command
	target           reflect.Value
	flags, args      []*value
	commands         []*command
}

// value is a flag or an argument.
type value struct {
	name, short, help, group string
	placeholder, preset      string
	hasPreset                bool
	envs, enum               []string
	flag, required, path     bool
	secret                   bool
	target                   reflect.Value
	given                    reflect.Value // what the command line has for it; invalid if it has nothing
	set                      bool          // by the command line, a variable or the default
}

// build adds the fields of a command's struct to the command.
func (a *App) build(c *command) *command {
	a.addFields(c, c.target)
	return c
}

func (a *App) addFields(c *command, target reflect.Value) {
	for i := range target.NumField() {
		field, tag := target.Type().Field(i), target.Type().Field(i).Tag
		has := func(key string) bool { _, ok := tag.Lookup(key); return ok }
		name := tag.Get("name")
		if name == "" {
			name = dashed(field.Name)
		}
		switch {
		case has("embed"):
			a.addFields(c, target.Field(i))
		case !field.IsExported():
		case has("cmd"):
			child := &command{name: name, path: strings.TrimSpace(c.path + " " + name), help: a.expand(tag.Get("help")), parent: c, target: target.Field(i)}
			c.commands = append(c.commands, a.build(child))
		default:
			v := &value{
				name: name, short: tag.Get("short"), help: a.expand(tag.Get("help")), group: tag.Get("group"), placeholder: tag.Get("placeholder"),
				preset: a.expand(tag.Get("default")), hasPreset: has("default"), flag: !has("arg"), path: tag.Get("type") == "path", secret: has("secret"), target: target.Field(i),
			}
			v.required = has("required") || !v.flag && !has("optional")
			if has("env") {
				v.envs = strings.Split(tag.Get("env"), ",")
			}
			if has("enum") {
				v.enum = strings.Split(tag.Get("enum"), ",")
			}
			if err := v.check(tag); err != nil {
				panic(fmt.Sprintf("%s.%s: %v", target.Type(), field.Name, err))
			}
			if v.flag {
				c.flags = append(c.flags, v)
			} else {
				c.args = append(c.args, v)
			}
		}
	}
}

// check finds mistakes in a tag.
func (v *value) check(tag reflect.StructTag) error {
	for _, t := range []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[float64](),
		reflect.TypeFor[time.Duration](), reflect.TypeFor[[]string](), reflect.TypeFor[map[string]string](),
	} {
		if v.target.Type() == t {
			if v.enum != nil && !v.hasPreset {
				return fmt.Errorf("enum needs a default")
			}
			if kind := tag.Get("type"); kind != "" && (kind != "path" || v.target.Kind() != reflect.String) {
				return fmt.Errorf("type %q is not known", kind)
			}
			text := v.target.Kind() == reflect.String || v.target.Kind() == reflect.Slice
			if !v.flag && !text {
				return fmt.Errorf("an argument is a string or a []string")
			}
			if v.secret && (!text || v.enum != nil) {
				return fmt.Errorf("a secret is a string or a []string without enum")
			}
			return nil
		}
	}
	return fmt.Errorf("type %s is not supported", v.target.Type())
}

// expand replaces the variables in a text.
func (a *App) expand(text string) string {
	for name, value := range a.Vars {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	return text
}

// dashed returns the name of a field in lower case, with a dash before each word: MaxPause is max-pause, ClientID is client-id.
func dashed(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
