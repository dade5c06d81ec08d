package commandline

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type shared struct {
	URL   string `help:"Address of the server; default ${url}." env:"TEST_URL" default:"${url}" placeholder:"URL"`
	Token string `help:"Token." env:"TEST_TOKEN,TEST_TOKEN_2" secret:""`
}

type runCommand struct {
	Addr    string            `help:"Where to listen." default:"127.0.0.1:1" env:"TEST_ADDR"`
	Data    string            `help:"Data folder." default:"./data" env:"TEST_DATA" type:"path"`
	Level   string            `help:"How much." enum:"low,high" default:"low" env:"TEST_LEVEL" group:"Details"`
	Parts   []string          `help:"Which parts." enum:"a,b,c" default:"a,b" group:"Details"`
	Hosts   []string          `help:"Names of the server." env:"TEST_HOSTS" group:"Details"`
	Models  map[string]string `help:"Models." env:"TEST_MODELS"`
	Wait    time.Duration     `help:"How long." default:"1s" env:"TEST_WAIT"`
	Limit   int               `short:"n" help:"How many." default:"50"`
	MaxSize int64             `help:"How large." default:"1024"`
	Rate    float64           `help:"How fast." default:"0.5"`
	Follow  bool              `short:"f" help:"Go on." env:"TEST_FOLLOW"`
	JSON    bool              `help:"As JSON."`

	_ *runCommand // is left alone
}

type sendCommand struct {
	shared  `embed:""`
	Session string   `arg:"" help:"The session."`
	Text    []string `arg:"" help:"The words."`
	AsUser  string   `required:"" help:"Who sends it." placeholder:"NAME"`
}

type showCommand struct {
	shared `embed:""`
	File   string `arg:"" optional:"" help:"The file; - is standard input." type:"path" env:"TEST_FILE"`
	Quiet  bool   `short:"q" help:"Print less."`
}

type testCommands struct {
	Run  runCommand  `cmd:"" help:"Run it."`
	Send sendCommand `cmd:"" help:"Send words."`
	Node struct {
		Show  showCommand `cmd:"" help:"Show a node."`
		Drain struct {
			Keys []string `help:"Keys." secret:""`
		} `cmd:"" help:"Drain a node."`
	} `cmd:"" help:"Nodes."`
}

var testApp = App{Name: "prog", Description: "A program.\n\nIt has two paragraphs.", Vars: map[string]string{"url": "http://localhost"}}

func parse(t *testing.T, args ...string) *Call {
	t.Helper()
	call, err := testApp.Parse(&testCommands{}, args)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return call
}

func TestDefaults(t *testing.T) {
	call := parse(t, "run")
	data, err := filepath.Abs("data")
	if err != nil {
		t.Fatal(err)
	}
	want := &runCommand{Addr: "127.0.0.1:1", Data: data, Level: "low", Parts: []string{"a", "b"}, Wait: time.Second, Limit: 50, MaxSize: 1024, Rate: 0.5}
	if call.Path != "run" || call.Help || !reflect.DeepEqual(call.Command, want) {
		t.Errorf("%s: %+v", call.Path, call.Command)
	}
	if call := parse(t, "node", "show"); call.Path != "node show" || call.Command.(*showCommand).URL != "http://localhost" {
		t.Errorf("%s: %+v", call.Path, call.Command)
	}
}

// Each case is one field of a command that has been read.
func TestValues(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string // with a space between them; _ is an empty one
		env   string
		field string
		want  any
	}{
		{args: "run --addr x", field: "Addr", want: "x"},
		{args: "run --addr=x", field: "Addr", want: "x"},
		{args: "run --addr=", field: "Addr", want: ""},
		{args: "run --addr _", field: "Addr", want: ""},
		{args: "run --addr=-x", field: "Addr", want: "-x"},
		{args: "run --addr -", field: "Addr", want: "-"},
		{args: "run --addr=a=b", field: "Addr", want: "a=b"},
		{args: "run --addr x --addr y", field: "Addr", want: "y"},
		{args: "run", env: "TEST_ADDR=env", field: "Addr", want: "env"},
		{args: "run --addr x", env: "TEST_ADDR=env", field: "Addr", want: "x"},
		{args: "run", env: "TEST_ADDR=", field: "Addr", want: ""}, // set, though empty
		{args: "run --data /abs", field: "Data", want: "/abs"},
		{args: "run --data ~/x", field: "Data", want: filepath.Join(home, "x")},
		{args: "run --data -", field: "Data", want: "-"},
		{args: "run", env: "TEST_DATA=", field: "Data", want: ""},
		{args: "run --parts c", field: "Parts", want: []string{"c"}}, // instead of the default
		{args: "run --hosts a,b --hosts c", field: "Hosts", want: []string{"a", "b", "c"}},
		{args: `run --hosts=a\,b,,c,`, field: "Hosts", want: []string{"a,b", "", "c"}},
		{args: `run --hosts=a\b\\,c\`, field: "Hosts", want: []string{`a\b\\`, `c\`}},
		{args: "run --hosts x", env: "TEST_HOSTS=a,b", field: "Hosts", want: []string{"x"}},
		{args: "run", env: "TEST_HOSTS=a,b", field: "Hosts", want: []string{"a", "b"}},
		{args: "run --hosts=", env: "TEST_HOSTS=a,b", field: "Hosts", want: []string{}},
		{args: `run --models a=b;c=d=e --models f=\;`, field: "Models", want: map[string]string{"a": "b", "c": "d=e", "f": ";"}},
		{args: "run --wait 1h30m", field: "Wait", want: 90 * time.Minute},
		{args: "run -n 7", field: "Limit", want: 7},
		{args: "run -n7", field: "Limit", want: 7},
		{args: "run -fn7", field: "Limit", want: 7},
		{args: "run --limit=-1", field: "Limit", want: -1},
		{args: "run --limit=0x10", field: "Limit", want: 16},
		{args: "run --max-size 9223372036854775807", field: "MaxSize", want: int64(9223372036854775807)},
		{args: "run --rate 1e3", field: "Rate", want: 1000.0},
		{args: "run -f", field: "Follow", want: true},
		{args: "run --follow=NO", env: "TEST_FOLLOW=1", field: "Follow", want: false},
		{args: "run", env: "TEST_FOLLOW=yes", field: "Follow", want: true},
		{args: "run --json", field: "JSON", want: true},
		{args: "node show", env: "TEST_TOKEN_2=two", field: "Token", want: "two"},
		{args: "node show", env: "TEST_TOKEN=one TEST_TOKEN_2=two", field: "Token", want: "one"},
		{args: "node show -q /x", field: "File", want: "/x"},
		{args: "node show", env: "TEST_FILE=/y", field: "File", want: "/y"},
		{args: "send s a - b --as-user u", field: "Text", want: []string{"a", "-", "b"}},
		{args: "send --as-user u s -- -x --as-user", field: "Text", want: []string{"-x", "--as-user"}},
		{args: "send --as-user u -- s a -- b", field: "Text", want: []string{"a", "--", "b"}},
		{args: "-- send s a b", env: "", field: "Text", want: nil}, // --as-user is missing
	} {
		t.Run(c.args+" "+c.env, func(t *testing.T) {
			for _, pair := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "_", "")
			}
			call, err := testApp.Parse(&testCommands{}, args)
			if c.want == nil {
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := reflect.ValueOf(call.Command).Elem().FieldByName(c.field).Interface(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s is %#v, want %#v", c.field, got, c.want)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ args, env, path, want string }{
		{"bogus", "", "", `unexpected argument bogus`},
		{"rn", "", "", `unexpected argument rn, did you mean "run"?`},
		{"se", "", "", `unexpected argument se, did you mean "send"?`},
		{"-", "", "", `unexpected argument -`},
		{"--", "", "", `expected one of "run", "send", "node"`},
		{"--bogus", "", "", `unknown flag --bogus`},
		{"run extra", "", "run", `unexpected argument extra`},
		{"run --bogus", "", "run", `unknown flag --bogus`},
		{"run --adr=x", "", "run", `unknown flag --adr, did you mean "--addr"?`},
		{"run --l", "", "run", `unknown flag --l, did you mean one of "-h", "--level", "--limit", "-n", "-f"?`},
		{"run -fx", "", "run", `unknown flag -x, did you mean one of "-h", "-n", "-f"?`},
		{"run --addr", "", "run", `--addr needs a value`},
		{"run --addr --json", "", "run", `--addr: expected string value but got "--json" (long flag); perhaps try --addr="--json"?`},
		{"run --data -x", "", "run", `--data: expected file value but got "-x" (short flag); perhaps try --data="-x"?`},
		{"run -n -1", "", "run", `--limit: expected int value but got "-1" (short flag); perhaps try --limit="-1"?`},
		{"run --level odd", "", "run", `--level must be one of "low","high" but got "odd"`},
		{"run --level=", "", "run", `--level must be one of "low","high" but got ""`},
		{"run --parts a,x", "", "run", `--parts must be one of "a","b","c" but got "x"`},
		{"run --hosts", "", "run", `--hosts needs a value`},
		{"run --hosts a,-b", "", "run", `--hosts: expected string value but got "-b" (short flag); perhaps try --hosts="-b"?`},
		{"node show --token -secret", "", "node show", `--token: expected string value but got a short flag; write a value that begins with - as --token=VALUE`},
		{"node show --token --secret", "", "node show", `--token: expected string value but got a long flag; write a value that begins with - as --token=VALUE`},
		{"node show --token", "", "node show", `--token needs a value`},
		{"node drain --keys a,-secret", "", "node drain", `--keys: expected string value but got a short flag; write a value that begins with - as --keys=VALUE`},
		{"run --models", "", "run", `--models needs a value`},
		{"run --models=a", "", "run", `--models: expected "<key>=<value>" but got "a"`},
		{"run --models -a=b", "", "run", `--models: expected map value but got "-a=b" (short flag); perhaps try --models="-a=b"?`},
		{"run --wait 5", "", "run", `--wait: expected duration but got "5": time: missing unit in duration "5"`},
		{"run -n=5", "", "run", `--limit: expected a valid 64 bit int but got "=5"`},
		{"run --max-size=9223372036854775808", "", "run", `--max-size: expected a valid 64 bit int but got "9223372036854775808"`},
		{"run --rate fast", "", "run", `--rate: expected a float but got "fast" (string)`},
		{"run --json=maybe", "", "run", `--json: bool value must be true, 1, yes, false, 0 or no but got "maybe"`},
		{"run", "TEST_WAIT=", "run", `--wait: expected duration but got "": time: invalid duration "" (from envar TEST_WAIT="")`},
		{"run --wait=1s", "TEST_WAIT=x", "run", `--wait: expected duration but got "x": time: invalid duration "x" (from envar TEST_WAIT="x")`},
		{"run", "TEST_LEVEL=odd", "run", `--level must be one of "low","high" but got "odd"`},
		{"run --bogus --level=odd", "", "run", `unknown flag --bogus`},
		{"send", "", "send", `missing flags: --as-user=NAME`},
		{"send --as-user u", "", "send", `expected "<session> <text> ..."`},
		{"send --as-user u s", "", "send", `expected "<text> ..."`},
		{"send s a --as-user u b", "", "send", `unexpected argument b`},
		{"node", "", "node", `expected one of "show", "drain"`},
		{"node bogus", "", "node", `unexpected argument bogus`},
		{"node show a b", "", "node show", `unexpected argument b`},
		{"--help run --bogus", "", "run", `unknown flag --bogus`},
	} {
		t.Run(c.args+" "+c.env, func(t *testing.T) {
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			_, err := testApp.Parse(&testCommands{}, strings.Fields(c.args))
			e, ok := err.(*Error)
			if !ok || e.Error() != c.want || e.Path != c.path {
				t.Errorf("%+v\nwant %q: %s", err, c.path, c.want)
			}
		})
	}
}

// A variable that belongs to another command may have a value that this one cannot read.
func TestVariablesOfOtherCommandsAreNotRead(t *testing.T) {
	t.Setenv("TEST_WAIT", "x")
	t.Setenv("TEST_LEVEL", "odd")
	parse(t, "node", "drain")
}

func TestWrongTagsPanic(t *testing.T) {
	for name, commands := range map[string]any{
		"type of the field": &struct{ Size uint8 }{},
		"argument": &struct {
			Limit int `arg:""`
		}{},
		"enum": &struct {
			Level string `enum:"a,b"`
		}{},
		"type": &struct {
			File string `type:"existingfile"`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			testApp.Parse(commands, nil)
		})
	}
}

func TestNamesOfFields(t *testing.T) {
	for field, want := range map[string]string{"Data": "data", "JSON": "json", "ClientID": "client-id", "MaxPause": "max-pause", "URLPath": "url-path", "X": "x"} {
		if got := dashed(field); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "xabcx", 2}, {"serve", "srve", 1}, {"srve", "serve", 1}, {"ab", "ba", 2}, {"Grüße", "Grusse", 3}} {
		if got := distance(c.from, c.to); got != c.want {
			t.Errorf("%s to %s is %d, want %d", c.from, c.to, got, c.want)
		}
	}
}
