package agentconfig

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/config"
)

// mcpServer constructs the MCP server of entry i. It logs the program that will be run.
func mcpServer(env *Env, a *config.Agent, i int, c tool.ServerOptions) (*tool.Server, error) {
	at := func(field string) string { return fmt.Sprintf("mcp[%d].%s", i, field) }
	c.Dir, c.Version, c.Logger = a.Path(c.Dir), env.Version, env.Logger.With("agent", a.Name)
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
	if c.Connect < 0 {
		errs = append(errs, a.Errorf(at("timeout"), "it cannot be negative"))
	}
	errs = append(errs, expandAll(a, at("env"), c.Env), expandAll(a, at("headers"), c.Headers))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(c.Command) > 0 {
		// The environment of the program may contain secrets; it is not logged.
		env.Logger.Info("the configuration names a program that will be run", "program", strings.Join(c.Command, " "), "for", "MCP server "+c.Name+" of agent "+a.Name, "file", a.File())
	}
	return tool.NewServer(c), nil
}

// plainName reports whether s may be the name of an MCP server.
func plainName(s string) bool {
	return s != "" && len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// checkRule returns the errors in the rule of entry i.
func checkRule(a *config.Agent, i int, r *tool.Rule) error {
	var errs []error
	for _, problem := range r.Problems() {
		errs = append(errs, a.Errorf(fmt.Sprintf("tools[%d].%s", i, problem.Field), "%s", problem.Msg))
	}
	return errors.Join(errs...)
}
