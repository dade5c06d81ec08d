package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are the fields of a kind of agent.
type settings struct {
	Model   string        `yaml:"model"`
	Window  int           `yaml:"window"`
	Wait    time.Duration `yaml:"wait"`
	Servers []struct {
		Name string            `yaml:"name"`
		Args []string          `yaml:"args"`
		Env  map[string]string `yaml:"env"`

		Pause time.Duration `yaml:"pause"`
	} `yaml:"servers"`
}

func TestParse(t *testing.T) {
	f, err := config.Parse("dir/parley.yaml", []byte(`# comment
demo: false
agents:
  - name: one
    kind: model
    description: The first.
    starters: [Hello, "How are you?"]
    commands: [{name: /brief, description: In short., input: TEXT}]
    model: m
    window: 100
    wait: 90s
    servers:
      - name: files
        args: [a, b]
        env: {A: "1"}
  - {name: two, kind: other, default: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	if f.Demo || len(f.Agents) != 2 || f.Default() != "two" {
		t.Fatalf("%+v", f)
	}
	a := f.Agents[0]
	var s settings
	if err := a.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if a.Name != "one" || a.Kind != "model" || len(a.Starters) != 2 || a.Commands[0] != (chat.AgentCommand{Name: "/brief", Description: "In short.", Input: "TEXT"}) || s.Model != "m" || s.Window != 100 || s.Wait != 90*time.Second || s.Servers[0].Env["A"] != "1" {
		t.Errorf("%+v %+v", a, s)
	}
	if err := f.Agents[1].Decode(&struct{}{}); err != nil {
		t.Error(err)
	}
	if got := a.Errorf("servers[0].args", "no").Error(); got != "dir/parley.yaml:14: agents[0].servers[0].args: no" {
		t.Error(got)
	}
	if got := a.Errorf("servers[0].missing", "no").Error(); got != "dir/parley.yaml:13: agents[0].servers[0].missing: no" {
		t.Error(got)
	}
	if abs := a.Path("x/y"); !filepath.IsAbs(abs) || !strings.HasSuffix(abs, filepath.Join("dir", "x", "y")) {
		t.Error(abs)
	}
	if a.Source() == f.Agents[1].Source() {
		t.Error("two agents have the same source")
	}
}

func TestErrorsNameLineAndField(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no list", "agents: helper", "f.yaml:1: agents: it must be a list"},
		{"no settings", "- a\n- b", "f.yaml:1: a configuration is a list of settings"},
		{"unknown setting", "agents: []\nagent: x", "f.yaml:2: agent: there is no such field"},
		{"no mapping", "agents:\n  - helper", "f.yaml:2: agents[0]: an agent has at least name and kind"},
		{"no name", "agents:\n  - kind: model", "f.yaml:2: agents[0].name: it is missing"},
		{"no kind", "agents:\n  - name: a", "f.yaml:2: agents[0].kind: it is missing"},
		{"a letter left out", "agents:\n  - name: a\n    kin: model", "f.yaml:3: agents[0].kin: there is no such field; it looks like kind, which is missing"},
		{"a letter added", "agents:\n  - names: a\n    kind: model", "f.yaml:2: agents[0].names: there is no such field; it looks like name"},
		{"a wrong letter", "agents:\n  - name: a\n    kimd: model", "agents[0].kimd: there is no such field; it looks like kind"},
		{"two letters swapped", "agents:\n  - nmae: a\n    kind: model", "agents[0].nmae: there is no such field; it looks like name"},
		{"a large letter", "agents:\n  - name: a\n    Kind: model", "agents[0].Kind: there is no such field; it looks like kind"},
		{"another word", "agents:\n  - name: a\n    base: model", "f.yaml:2: agents[0].kind: it is missing"},
		{"bad name", "agents:\n  - kind: model\n    name: a b", "f.yaml:3: agents[0].name: an agent name has"},
		{"reserved name", "agents:\n  - kind: model\n    name: none", "f.yaml:3: agents[0].name: \"none\" means"},
		{"twice", "agents:\n  - {name: a, kind: model}\n  - {name: a, kind: model}", "f.yaml:3: agents[1].name: \"a\" is taken by the agent in line 2"},
		{"two defaults", "agents:\n  - {name: a, kind: model, default: true}\n  - {name: b, kind: model, default: true}", "f.yaml:3: agents[1].default: only one"},
		{"wrong type", "agents:\n  - name: a\n    kind: model\n    starters: hello", "f.yaml:4: agents[0].starters: it should be a list"},
		{"command without a slash", "agents:\n  - name: a\n    kind: model\n    commands: [{name: brief}]", "f.yaml:4: agents[0].commands: the name of a command is a slash and"},
		{"wrong bool", "agents:\n  - name: a\n    kind: model\n    default: maybe", "f.yaml:4: agents[0].default: it should be true or false"},
		{"no YAML", "agents:\n  - name: [a", "f.yaml:2: "},
		{"tabs", "agents:\n\t- name: a", "f.yaml:2: "},
		{"the same key twice", "agents: []\nagents: []", "f.yaml:2: "},
		{"two documents", "agents: []\n---\nagents: []", "more than one document"},
	} {
		_, err := config.Parse("f.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", "    modell: m", "f.yaml:4: agents[0].modell: there is no such field"},
		{"a key", "    api_key: sk-1", "f.yaml:4: agents[0].api_key: there is no such field; keys do not belong in this file"},
		{"wrong number", "    window: big", "f.yaml:4: agents[0].window: it should be a whole number"},
		{"wrong duration", "    wait: soon", "f.yaml:4: agents[0].wait"},
		{"duration without a unit", "    model: x\n    wait: 1x", "f.yaml:5: agents[0].wait: it should be a duration"},
		{"duration like another value", "    model: soon\n    wait: soon", "f.yaml:5: agents[0].wait: it should be a duration"},
		{"inner duration", "    model: soon\n    servers:\n      - name: x\n      - name: soon\n        pause: soon", "f.yaml:8: agents[0].servers[1].pause: it should be a duration"},
		{"inner field", "    servers:\n      - name: x\n        arg: [y]", "f.yaml:6: agents[0].servers[0].arg: there is no such field"},
	} {
		f, err := config.Parse("f.yaml", []byte("agents:\n  - name: a\n    kind: model\n"+c.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Agents[0].Decode(&settings{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestEmptyFileIsValid(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "agents:\n", "agents: []\n", "---\n"} {
		if f, err := config.Parse("f.yaml", []byte(text)); err != nil || len(f.Agents) != 0 || f.Default() != "" || !f.Demo {
			t.Errorf("%q: %+v %v", text, f, err)
		}
	}
}

func TestSecretsAreReadFromVariablesAndFiles(t *testing.T) {
	t.Setenv("PARLEY_TEST_KEY", " k1\n")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("k2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		secret config.Secret
		want   string
		fails  string
	}{
		{config.Secret{}, "", ""}, {config.Secret{Env: "PARLEY_TEST_KEY"}, "k1", ""}, {config.Secret{File: file}, "k2", ""},
		{config.Secret{Env: "PARLEY_TEST_NO_KEY"}, "", "PARLEY_TEST_NO_KEY"}, {config.Secret{File: file + "x"}, "", "cannot be read"},
	} {
		got, err := c.secret.Read()
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%+v: %q %v", c.secret, got, err)
		}
	}
	if got, err := config.Expand("Bearer ${PARLEY_TEST_KEY}!"); err != nil || got != "Bearer  k1\n!" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := config.Expand("${PARLEY_TEST_NO_KEY}"); err == nil {
		t.Error("a missing variable is no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("agents:\n  - {name: a, kind: model, model: [x]}\n"))
	f.Add([]byte("agents: &a\n  - *a\n"))
	f.Add([]byte("a: |\n  b\n? c\n: d\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := config.Parse("f.yaml", data)
		if err != nil {
			return
		}
		for _, a := range file.Agents {
			_ = a.Decode(&settings{}) // it may return an error, it must not panic
			_ = a.Errorf("servers[0].args", "x")
		}
	})
}
