package agentconfig

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/config"
)

// mcpConfig is the configuration of an MCP server.
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

// toolConfig is the configuration of the tools that it matches.
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

// mcpServer constructs the MCP server of entry i. It logs the program that will be run.
func mcpServer(env *Env, a *config.Agent, i int, c *mcpConfig) (*tool.Server, error) {
	at := func(field string) string { return fmt.Sprintf("mcp[%d].%s", i, field) }
	opt := tool.ServerOptions{
		Name: c.Name, Command: c.Command, Dir: a.Path(c.Dir), URL: c.URL, Connect: c.Timeout, Exclusive: c.Exclusive,
		Approval: c.Approval, Only: c.Only, Version: env.Version, Logger: env.Logger.With("agent", a.Name),
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
	errs = append(errs, expandAll(a, at("env"), c.Env, &opt.Env), expandAll(a, at("headers"), c.Headers, &opt.Headers))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(c.Command) > 0 {
		// The environment of the program may contain secrets; it is not logged.
		env.Logger.Info("the configuration names a program that will be run", "program", strings.Join(c.Command, " "), "for", "MCP server "+c.Name+" of agent "+a.Name, "file", a.File())
	}
	return tool.NewServer(opt), nil
}

// plainName reports whether s may be the name of an MCP server.
func plainName(s string) bool {
	return s != "" && len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// toolRule constructs the rule of entry i.
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
