package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/config"
)

// demoAgent is the demo agent under another name.
func demoAgent(_ *parley, a *config.Agent) (agent.Agent, error) {
	return demo.Agent{}, a.Decode(&struct{}{})
}

// modelConfig are the fields of an agent of kind model.
type modelConfig struct {
	Provider     string            `yaml:"provider"`
	Endpoint     string            `yaml:"endpoint"`
	Model        string            `yaml:"model"`
	Models       []string          `yaml:"models"`
	KeyEnv       string            `yaml:"key_env"`
	KeyFile      string            `yaml:"key_file"`
	Headers      map[string]string `yaml:"headers"`
	Instructions string            `yaml:"instructions"`
	Window       int               `yaml:"window"`
	MaxTokens    int               `yaml:"max_tokens"`
	Temperature  *float64          `yaml:"temperature"`
	Effort       string            `yaml:"effort"`
	MaxSteps     int               `yaml:"max_steps"`
	Retries      *int              `yaml:"retries"`
	Silence      time.Duration     `yaml:"silence"`
	ToolTimeout  time.Duration     `yaml:"tool_timeout"`
	ApprovalTime time.Duration     `yaml:"approval_timeout"`
	Builtin      *[]string         `yaml:"builtin"`
	MCP          []mcpConfig       `yaml:"mcp"`
	Tools        []toolConfig      `yaml:"tools"`
}

// mcpConfig is an MCP server.
type mcpConfig struct {
	Name      string            `yaml:"name"`
	Command   []string          `yaml:"command"`
	Dir       string            `yaml:"dir"`
	Env       map[string]string `yaml:"env"`
	URL       string            `yaml:"url"`
	Headers   map[string]string `yaml:"headers"`
	Timeout   time.Duration     `yaml:"timeout"`
	Exclusive bool              `yaml:"exclusive"`
	Approval  tool.Approval     `yaml:"approval"`
	Only      []string          `yaml:"only"`
}

// toolConfig says how some tools are treated.
type toolConfig struct {
	Match      string        `yaml:"match"`
	Approval   tool.Approval `yaml:"approval"`
	Repeatable *bool         `yaml:"repeatable"`
	Timeout    time.Duration `yaml:"timeout"`
	Risk       string        `yaml:"risk"`
	Permission []string      `yaml:"permission"`
	When       []struct {
		Args     map[string]string `yaml:"args"`
		Approval tool.Approval     `yaml:"approval"`
	} `yaml:"when"`
}

// modelAgent makes an agent of kind model.
func modelAgent(p *parley, a *config.Agent) (agent.Agent, error) {
	var c modelConfig
	if err := a.Decode(&c); err != nil {
		return nil, err
	}
	opt := model.Options{
		Provider: c.Provider, Endpoint: c.Endpoint, Model: c.Model, Models: c.Models, Instructions: strings.TrimSpace(c.Instructions), Window: c.Window,
		MaxTokens: c.MaxTokens, Temperature: c.Temperature, Effort: c.Effort, MaxSteps: c.MaxSteps, Idle: c.Silence,
		Timeout: c.ToolTimeout, Ask: c.ApprovalTime, Grants: grants{p}, Files: p.readFile, Logger: p.log.With("agent", a.Name),
	}
	var errs []error
	bad := func(field, format string, args ...any) { errs = append(errs, a.Errorf(field, format, args...)) }
	opt.Provider = cmp.Or(opt.Provider, model.OpenAI)
	if !slices.Contains(model.Providers, opt.Provider) {
		bad("provider", "%q is not one of %s", c.Provider, strings.Join(model.Providers, ", "))
	}
	if c.Model == "" {
		bad("model", "it is missing: the model's name, as the endpoint knows it")
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad("endpoint", "%q is no address such as http://127.0.0.1:11434/v1", c.Endpoint)
		}
	}
	if c.Retries != nil {
		if opt.Retries = *c.Retries; *c.Retries == 0 {
			opt.Retries = -1
		}
	}
	if err := opt.Validate(); err != nil && c.Effort != "" && !slices.Contains([]string{"low", "medium", "high"}, c.Effort) {
		bad("effort", "%q is not one of low, medium, high", c.Effort)
	}
	for _, field := range c.negative() {
		bad(field, "it cannot be negative")
	}
	fallback := "" // an endpoint of one's own often needs no key
	if c.Endpoint == "" {
		fallback = model.KeyVariables[opt.Provider]
	}
	var err error
	opt.Key, err = endpointKey(a, c.KeyEnv, c.KeyFile, fallback)
	errs = append(errs, err, modelHeaders(a, "headers", c.Headers, &opt.Headers))
	names := []string{}
	if c.Builtin != nil {
		names = *c.Builtin
	}
	if c.Builtin == nil || len(names) > 0 {
		var err error
		if opt.Tools, err = tool.Builtin(names...); err != nil {
			bad("builtin", "%s", chat.Public(err).Msg)
		}
	}
	for i := range c.MCP {
		s, err := mcpServer(p, a, i, &c.MCP[i])
		if errs = append(errs, err); s != nil {
			if slices.ContainsFunc(opt.Servers, func(o *tool.Server) bool { return o.Name() == s.Name() }) {
				bad(fmt.Sprintf("mcp[%d].name", i), "%q is taken", s.Name())
			}
			opt.Servers = append(opt.Servers, s)
		}
	}
	for i := range c.Tools {
		r, err := toolRule(a, i, &c.Tools[i])
		errs = append(errs, err)
		opt.Rules = append(opt.Rules, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return model.New(opt)
}

// negative lists the fields that are below zero and must not be.
func (c *modelConfig) negative() []string {
	var out []string
	for _, f := range []struct {
		name  string
		below bool
	}{
		{"window", c.Window < 0}, {"max_tokens", c.MaxTokens < 0}, {"temperature", c.Temperature != nil && *c.Temperature < 0}, {"max_steps", c.MaxSteps < 0},
		{"retries", c.Retries != nil && *c.Retries < 0}, {"silence", c.Silence < 0}, {"tool_timeout", c.ToolTimeout < 0}, {"approval_timeout", c.ApprovalTime < 0},
	} {
		if f.below {
			out = append(out, f.name)
		}
	}
	return out
}

// endpointKey says where the key of an endpoint comes from; fallback is the variable
// that is read when the entry names none. A key that is missing is named by line
// and field, whenever it is needed.
func endpointKey(a *config.Agent, env, file, fallback string) (func() (string, error), error) {
	secret, field := config.Secret{Env: env, File: a.Path(file)}, "key_env"
	switch {
	case env != "" && file != "":
		return nil, a.Errorf("key_file", "give key_env or key_file, not both")
	case file != "":
		field = "key_file"
	case env == "":
		secret.Env = fallback
	}
	return func() (string, error) {
		key, err := secret.Read()
		if err != nil {
			return "", a.Errorf(field, "%s", err)
		}
		return key, nil
	}, nil
}

func modelHeaders(a *config.Agent, field string, given map[string]string, into *map[string]string) error {
	var errs []error
	for name, value := range given {
		v, err := config.Expand(value)
		if err != nil {
			errs = append(errs, a.Errorf(field+"."+name, "%s", err))
		}
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[name] = v
	}
	return errors.Join(errs...)
}

func mcpServer(p *parley, a *config.Agent, i int, c *mcpConfig) (*tool.Server, error) {
	at := func(field string) string { return fmt.Sprintf("mcp[%d].%s", i, field) }
	opt := tool.ServerOptions{
		Name: c.Name, Command: c.Command, Dir: a.Path(c.Dir), URL: c.URL, Connect: c.Timeout, Exclusive: c.Exclusive,
		Approval: c.Approval, Only: c.Only, Version: version, Logger: p.log.With("agent", a.Name),
	}
	var errs []error
	if !plainName(c.Name) {
		errs = append(errs, a.Errorf(at("name"), "a name of letters, digits, - and _ is needed; the names of its tools begin with it"))
	}
	switch {
	case len(c.Command) == 0 && c.URL == "":
		errs = append(errs, a.Errorf(at("command"), "give command (program and arguments) or url"))
	case len(c.Command) > 0 && c.URL != "":
		errs = append(errs, a.Errorf(at("url"), "give command or url, not both"))
	case c.URL != "":
		if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, a.Errorf(at("url"), "%q is no address such as http://127.0.0.1:3000/mcp", c.URL))
		}
	}
	for _, problem := range (&tool.Rule{Match: "*", Approval: c.Approval}).Problems() {
		errs = append(errs, a.Errorf(at(problem.Field), "%s", problem.Msg))
	}
	if c.Timeout < 0 {
		errs = append(errs, a.Errorf(at("timeout"), "it cannot be negative"))
	}
	errs = append(errs, modelHeaders(a, at("env"), c.Env, &opt.Env), modelHeaders(a, at("headers"), c.Headers, &opt.Headers))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(c.Command) > 0 {
		// Its environment may hold secrets, and is not shown.
		p.log.Info("the configuration names a program that will be run", "program", strings.Join(c.Command, " "), "for", "MCP server "+c.Name+" of agent "+a.Name, "file", a.File())
	}
	return tool.NewServer(opt), nil
}

func plainName(s string) bool {
	return s != "" && len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

func toolRule(a *config.Agent, i int, c *toolConfig) (tool.Rule, error) {
	r := tool.Rule{Match: c.Match, Approval: c.Approval, Repeatable: c.Repeatable, Timeout: c.Timeout, Risk: c.Risk, Scopes: c.Permission}
	for _, w := range c.When {
		r.When = append(r.When, tool.Condition{Args: w.Args, Approval: w.Approval})
	}
	var errs []error
	for _, problem := range r.Problems() {
		errs = append(errs, a.Errorf(fmt.Sprintf("tools[%d].%s", i, problem.Field), "%s", problem.Msg))
	}
	return r, errors.Join(errs...)
}

// readFile reads a file of a session for a model.
func (p *parley) readFile(ctx context.Context, id chat.SessionID, path string) ([]byte, string, error) {
	body, info, err := p.artifacts.Get(ctx, id, path)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err == nil && len(data) > most {
		err = chat.Errorf(chat.TooLarge, "the file is too large for a model")
	}
	return data, info.MediaType, err
}
