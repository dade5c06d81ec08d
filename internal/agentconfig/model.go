package agentconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/config"
)

// modelConfig are the fields of an agent of kind model.
type modelConfig struct {
	Provider     string               `yaml:"provider"`
	Endpoint     string               `yaml:"endpoint"`
	Model        string               `yaml:"model"`
	Models       []string             `yaml:"models"`
	KeyEnv       string               `yaml:"key_env"`
	KeyFile      string               `yaml:"key_file"`
	Headers      map[string]string    `yaml:"headers"`
	Instructions string               `yaml:"instructions"`
	Window       int                  `yaml:"window"`
	MaxTokens    int                  `yaml:"max_tokens"`
	Temperature  *float64             `yaml:"temperature"`
	Effort       string               `yaml:"effort"`
	MaxSteps     int                  `yaml:"max_steps"`
	Retries      *int                 `yaml:"retries"`
	Silence      time.Duration        `yaml:"silence"`
	ToolTimeout  time.Duration        `yaml:"tool_timeout"`
	ApprovalTime time.Duration        `yaml:"approval_timeout"`
	Builtin      *[]string            `yaml:"builtin"`
	MCP          []tool.ServerOptions `yaml:"mcp"`
	Tools        []tool.Rule          `yaml:"tools"`
}

// newModel constructs an agent of kind model.
func newModel(a *config.Agent, env *Env) (agent.Agent, error) {
	var c modelConfig
	if err := a.Decode(&c); err != nil {
		return nil, err
	}
	opt := model.Options{
		Provider: c.Provider, Endpoint: c.Endpoint, Model: c.Model, Models: c.Models, Headers: c.Headers, Instructions: strings.TrimSpace(c.Instructions), Window: c.Window,
		MaxTokens: c.MaxTokens, Temperature: c.Temperature, Effort: c.Effort, MaxSteps: c.MaxSteps, Idle: c.Silence,
		Timeout: c.ToolTimeout, Ask: c.ApprovalTime, Rules: c.Tools, Grants: env.Grants, Files: env.Files, Logger: env.Logger.With("agent", a.Name),
	}
	opt.Provider = cmp.Or(opt.Provider, model.OpenAI)
	if c.Retries != nil {
		if opt.Retries = *c.Retries; *c.Retries == 0 {
			opt.Retries = -1
		}
	}
	errs := c.check(a)
	fallback := "" // with endpoint set, the key is optional
	if c.Endpoint == "" {
		fallback = model.KeyVariable(opt.Provider)
	}
	var err error
	opt.Key, err = endpointKey(a, c.KeyEnv, c.KeyFile, fallback)
	errs = append(errs, err, expandAll(a, "headers", c.Headers))
	if c.Builtin == nil || len(*c.Builtin) > 0 {
		var names []string
		if c.Builtin != nil {
			names = *c.Builtin
		}
		if opt.Tools, err = tool.Builtin(names...); err != nil {
			errs = append(errs, a.Errorf("builtin", "%s", chat.Public(err).Msg))
		}
	}
	for i := range c.MCP {
		s, err := mcpServer(env, a, i, c.MCP[i])
		if errs = append(errs, err); s != nil {
			if slices.ContainsFunc(opt.Servers, func(o *tool.Server) bool { return o.Name() == s.Name() }) {
				errs = append(errs, a.Errorf(fmt.Sprintf("mcp[%d].name", i), "%q is taken", s.Name()))
			}
			opt.Servers = append(opt.Servers, s)
		}
	}
	for i := range c.Tools {
		errs = append(errs, checkRule(a, i, &c.Tools[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return model.New(opt), nil
}

// check lists what is wrong with the fields that need nothing else.
func (c *modelConfig) check(a *config.Agent) (errs []error) {
	bad := func(field, format string, args ...any) { errs = append(errs, a.Errorf(field, format, args...)) }
	if c.Provider != "" && !slices.Contains(model.Providers, c.Provider) {
		bad("provider", "%q is not one of %s", c.Provider, strings.Join(model.Providers, ", "))
	}
	if c.Model == "" {
		bad("model", "it is missing: the model's name, as the endpoint names it")
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad("endpoint", "%q is no address such as http://127.0.0.1:11434/v1", c.Endpoint)
		}
	}
	if c.Effort != "" && !slices.Contains([]string{"low", "medium", "high"}, c.Effort) {
		bad("effort", "%q is not one of low, medium, high", c.Effort)
	}
	for _, f := range []struct {
		name  string
		below bool
	}{
		{"window", c.Window < 0}, {"max_tokens", c.MaxTokens < 0}, {"temperature", c.Temperature != nil && *c.Temperature < 0}, {"max_steps", c.MaxSteps < 0},
		{"retries", c.Retries != nil && *c.Retries < 0}, {"silence", c.Silence < 0}, {"tool_timeout", c.ToolTimeout < 0}, {"approval_timeout", c.ApprovalTime < 0},
	} {
		if f.below {
			bad(f.name, "it cannot be negative")
		}
	}
	return errs
}
