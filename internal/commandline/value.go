package commandline

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// operand is the text from which a value is read.
type operand struct {
	text    string
	value   bool // it can only be a value, as in --flag=text; otherwise it is the next argument, which may be a flag
	missing bool // the command line ends before it
}

// notValueError says that something else stands where a value is needed.
type notValueError struct {
	want, got, kind string
}

func (e *notValueError) Error() string {
	return fmt.Sprintf("expected %s value but got %q (%s)", e.want, e.got, e.kind)
}

// read returns the text of an operand. want names what is needed.
func (o operand) read(want string) (string, error) {
	switch {
	case o.value || !looksLikeFlag(o.text):
		return o.text, nil
	case strings.HasPrefix(o.text, "--"):
		return "", &notValueError{want, o.text, "long flag"}
	}
	return "", &notValueError{want, o.text, "short flag"}
}

// give reads a value from the command line.
func (v *value) give(o operand) error {
	if o.missing {
		return fmt.Errorf("--%s needs a value", v.name)
	}
	if !v.given.IsValid() {
		v.given = reflect.New(v.target.Type()).Elem()
		if v.given.Kind() == reflect.Slice {
			v.given.Set(reflect.MakeSlice(v.given.Type(), 0, 0))
		}
	}
	err := v.decode(o, v.given)
	if e, ok := errors.AsType[*notValueError](err); ok {
		if v.secret {
			return fmt.Errorf("--%s: expected %s value but got a %s; write a value that begins with - as --%s=VALUE", v.name, e.want, e.kind, v.name)
		}
		return fmt.Errorf("--%s: %w; perhaps try --%s=%q?", v.name, err, v.name, e.got)
	}
	return v.named(err)
}

// fill sets the field: to the value of the command line, of a variable, or to the default. A variable that cannot be read is an error also when
// the command line has a value.
func (v *value) fill() error {
	v.target.SetZero()
	v.set = true
	i := slices.IndexFunc(v.envs, func(name string) bool { _, ok := os.LookupEnv(name); return ok })
	switch {
	case i >= 0:
		text := os.Getenv(v.envs[i])
		if err := v.named(v.decode(operand{text: text, value: true}, v.target)); err != nil {
			return fmt.Errorf("%w (from envar %s=%q)", err, v.envs[i], text)
		}
	case v.hasPreset:
		if err := v.named(v.decode(operand{text: v.preset, value: true}, v.target)); err != nil {
			return err
		}
	default:
		v.set = v.given.IsValid()
	}
	if v.given.IsValid() {
		v.target.Set(v.given)
	}
	return nil
}

func (v *value) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s: %w", v.name, err)
}

// decode sets target, or adds to it if it is a list or a map.
func (v *value) decode(o operand, target reflect.Value) error {
	switch p := target.Addr().Interface().(type) {
	case *string:
		return v.decodeString(o, p)
	case *bool:
		return decodeBool(o.text, p)
	case *int:
		n, err := decodeInt(o)
		*p = int(n)
		return err
	case *int64:
		n, err := decodeInt(o)
		*p = n
		return err
	case *float64:
		text, err := o.read("float")
		if err != nil {
			return err
		}
		if *p, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("expected a float but got %q (string)", text)
		}
	case *time.Duration:
		text, err := o.read("duration")
		if err != nil {
			return err
		}
		if *p, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("expected duration but got %q: %w", text, err)
		}
	case *[]string:
		return v.decodeList(o, p)
	case *map[string]string:
		return decodeMap(o, p)
	}
	return nil
}

func (v *value) decodeString(o operand, p *string) error {
	want := "string"
	if v.path {
		want = "file"
	}
	text, err := o.read(want)
	if err != nil {
		return err
	}
	if v.path && text != "" && text != "-" {
		text = absolute(text)
	}
	*p = text
	return nil
}

// absolute returns the whole path of a file. ~/ is the home folder.
func absolute(path string) string {
	if strings.HasPrefix(path, "~/") {
		if u, err := user.Current(); err == nil {
			return filepath.Join(u.HomeDir, path[2:])
		}
		return path
	}
	if filepath.IsAbs(path) {
		return path
	}
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

func decodeBool(text string, p *bool) error {
	switch text = strings.ToLower(text); text {
	case "true", "1", "yes":
		*p = true
	case "false", "0", "no":
		*p = false
	default:
		return fmt.Errorf("bool value must be true, 1, yes, false, 0 or no but got %q", text)
	}
	return nil
}

func decodeInt(o operand) (int64, error) {
	text, err := o.read("int")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("expected a valid 64 bit int but got %q", text)
	}
	return n, nil
}

// decodeList adds the elements of a flag, or the one word of an argument, to a list.
func (v *value) decodeList(o operand, p *[]string) error {
	words := []string{o.text}
	if v.flag {
		words = split(o.text, ',')
	}
	for _, word := range words {
		text, err := operand{text: word, value: o.value}.read("string")
		if err != nil {
			return err
		}
		*p = append(*p, text)
	}
	return nil
}

func decodeMap(o operand, p *map[string]string) error {
	if *p == nil {
		*p = map[string]string{}
	}
	for _, pair := range split(o.text, ';') {
		text, err := operand{text: pair, value: o.value}.read("map")
		if err != nil {
			return err
		}
		key, word, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf(`expected "<key>=<value>" but got %q`, text)
		}
		(*p)[key] = word
	}
	return nil
}

// split splits a text at a separator. One behind a backslash belongs to the element; other backslashes stay, and so does what follows them. An empty
// element at the end is left out.
func split(text string, separator byte) (list []string) {
	var element []byte
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			if i++; text[i] != separator {
				element = append(element, '\\')
			}
			element = append(element, text[i])
		case text[i] == separator:
			list, element = append(list, string(element)), nil
		default:
			element = append(element, text[i])
		}
	}
	if element != nil {
		list = append(list, string(element))
	}
	return list
}

// checkEnum reports a value that is not one of those that are allowed.
func (v *value) checkEnum() error {
	if v.enum == nil {
		return nil
	}
	values, ok := v.target.Interface().([]string)
	if !ok {
		values = []string{v.target.String()}
	}
	for _, got := range values {
		if !slices.Contains(v.enum, got) {
			quoted := make([]string, len(v.enum))
			for i, allowed := range v.enum {
				quoted[i] = strconv.Quote(allowed)
			}
			return fmt.Errorf("--%s must be one of %s but got %q", v.name, strings.Join(quoted, ","), got)
		}
	}
	return nil
}
