package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/parley-hq/parley/chat"
)

// Name is the file that is read when none is named.
const Name = "parley.yaml"

// File is a configuration.
type File struct {
	Path   string
	Agents []*Agent
	Demo   bool // the demo agent exists too
}

// Agent is one entry under agents.
type Agent struct {
	Name        string
	Kind        string
	Description string
	Starters    []string // messages to begin with
	Commands    []chat.AgentCommand
	Default     bool // answers sessions that name no agent

	file  string
	dir   string
	index int
	node  *ast.MappingNode
}

// File is the file of the agent.
func (a *Agent) File() string { return a.file }

// common are the fields that all kinds of agents have.
type common struct {
	Name        string    `yaml:"name"`
	Kind        string    `yaml:"kind"`
	Description string    `yaml:"description"`
	Starters    []string  `yaml:"starters"`
	Commands    []command `yaml:"commands"`
	Default     bool      `yaml:"default"`
}

// command is an entry of commands; see [chat.AgentCommand].
type command struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Input       string `yaml:"input"`
}

var commonFields = []string{"name", "kind", "description", "starters", "commands", "default"}

// Load reads a file.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a configuration. Errors contain path, and relative paths in the file are relative to its folder.
func Parse(path string, data []byte) (*File, error) {
	f := &File{Path: path, Demo: true}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, problem(path, nil, nil, err)
	}
	var root *ast.MappingNode
	for _, doc := range parsed.Docs {
		m, ok := mapping(doc.Body)
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType:
		case !ok:
			return nil, &Error{File: path, Line: lineOf(doc.Body), Msg: "a configuration is a list of settings, such as agents:"}
		case root != nil:
			return nil, &Error{File: path, Line: lineOf(doc.Body), Msg: "there is more than one document; one file has one"}
		default:
			root = m
		}
	}
	if root == nil {
		return f, nil
	}
	var top struct {
		Agents []ast.Node `yaml:"agents"`
		Demo   *bool      `yaml:"demo"`
	}
	if err := yaml.NodeToValue(without(root, "agents"), &top, yaml.Strict()); err != nil {
		return nil, problem(path, root, &top, err)
	}
	if top.Demo != nil {
		f.Demo = *top.Demo
	}
	if err := f.agents(root); err != nil {
		return nil, err
	}
	return f, nil
}

// agents reads the common fields of all agents.
func (f *File) agents(root *ast.MappingNode) error {
	value := field(root, "agents")
	if value == nil || value.Type() == ast.NullType {
		return nil
	}
	list, ok := value.(*ast.SequenceNode)
	if !ok {
		return &Error{File: f.Path, Line: lineOf(value), Field: "agents", Msg: "it must be a list: each agent begins with a dash"}
	}
	var errs []error
	names, defaults := map[string]int{}, 0
	for i, n := range list.Values {
		a := &Agent{file: f.Path, dir: filepath.Dir(f.Path), index: i}
		m, ok := mapping(n)
		if !ok {
			errs = append(errs, &Error{File: f.Path, Line: lineOf(n), Field: a.path(""), Msg: "an agent has at least name and kind"})
			continue
		}
		a.node = m
		var c common
		if err := yaml.NodeToValue(with(m, commonFields), &c, yaml.Strict()); err != nil {
			errs = append(errs, a.problem(&c, err))
			continue
		}
		a.Name, a.Kind, a.Description, a.Starters, a.Default = c.Name, c.Kind, c.Description, c.Starters, c.Default
		for _, command := range c.Commands {
			a.Commands = append(a.Commands, chat.AgentCommand(command))
		}
		if err := chat.CheckAgentCommands(a.Commands); err != nil {
			errs = append(errs, a.Errorf("commands", "%s", chat.Public(err).Msg))
		}
		switch err := chat.CheckAgentName(a.Name); {
		case a.Name == "":
			errs = append(errs, a.missing("name"))
		case a.Name == chat.NoAgent:
			errs = append(errs, a.Errorf("name", "%q means that no agent answers; choose another name", a.Name))
		case err != nil:
			errs = append(errs, a.Errorf("name", "%s", chat.Public(err).Msg))
		case names[a.Name] > 0:
			errs = append(errs, a.Errorf("name", "%q is taken by the agent in line %d", a.Name, names[a.Name]))
		}
		names[a.Name] = a.line("name")
		if a.Kind == "" {
			errs = append(errs, a.missing("kind"))
		}
		if a.Default {
			if defaults++; defaults > 1 {
				errs = append(errs, a.Errorf("default", "only one agent can be the default"))
			}
		}
		f.Agents = append(f.Agents, a)
	}
	return errors.Join(errs...)
}

// Default is the agent of sessions that name none: the one with default: true, else the first; "" if there is none.
func (f *File) Default() string {
	for _, a := range f.Agents {
		if a.Default {
			return a.Name
		}
	}
	if len(f.Agents) > 0 {
		return f.Agents[0].Name
	}
	return ""
}

// Decode reads the fields of the agent's kind into a struct with yaml tags. An unknown field is an error.
func (a *Agent) Decode(v any) error {
	rest := without(a.node, commonFields...)
	if len(rest.Values) == 0 {
		return nil
	}
	if err := yaml.NodeToValue(rest, v, yaml.Strict()); err != nil {
		return a.problem(v, err)
	}
	return nil
}

// Has reports whether the agent has a field.
func (a *Agent) Has(name string) bool { return field(a.node, name) != nil }

// Source is the agent's entry as text. An agent with the same source need not be created again.
func (a *Agent) Source() string { return a.node.String() }

// Path makes a path absolute; it is relative to the file.
func (a *Agent) Path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	if abs, err := filepath.Abs(filepath.Join(a.dir, p)); err == nil {
		return abs
	}
	return filepath.Join(a.dir, p)
}

// Errorf returns an error about a field of the agent, such as model or mcp[1].url, with its line.
func (a *Agent) Errorf(field, format string, args ...any) error {
	return &Error{File: a.file, Line: a.line(field), Field: a.path(field), Msg: fmt.Sprintf(format, args...)}
}

// missing is the error for a required field. If another field has nearly that name, the error names it.
func (a *Agent) missing(field string) error {
	for _, v := range a.node.Values {
		if key := v.Key.String(); !slices.Contains(commonFields, key) && near(key, field) {
			return a.Errorf(key, "there is no such field; it looks like %s, which is missing", field)
		}
	}
	return a.Errorf(field, "it is missing")
}

func (a *Agent) path(field string) string {
	p := fmt.Sprintf("agents[%d]", a.index)
	if field != "" {
		p += "." + field
	}
	return p
}

func (a *Agent) problem(into any, err error) error { return problem(a.file, a.node, into, err) }

// line is the line of a field, or of the nearest field around it that exists.
func (a *Agent) line(path string) int {
	var at ast.Node = a.node
	line := lineOf(a.node)
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		switch n := at.(type) {
		case *ast.SequenceNode:
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil || i < 0 || i >= len(n.Values) {
				return line
			}
			at = n.Values[i]
		default:
			m, ok := mapping(n)
			if !ok {
				return line
			}
			i := slices.IndexFunc(m.Values, func(v *ast.MappingValueNode) bool { return v.Key.String() == step })
			if i < 0 {
				return line
			}
			at, line = m.Values[i].Value, m.Values[i].Key.GetToken().Position.Line
			continue
		}
		line = lineOf(at)
	}
	return line
}
