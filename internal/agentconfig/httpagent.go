package agentconfig

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/agents/httpagent"
	"github.com/parley-hq/parley/internal/config"
)

// httpAgentConfig are the fields of agents that are called over HTTP.
type httpAgentConfig struct {
	URL          string            `yaml:"url"`
	KeyEnv       string            `yaml:"key_env"`
	KeyFile      string            `yaml:"key_file"`
	Headers      map[string]string `yaml:"headers"`
	Model        string            `yaml:"model"`
	Instructions string            `yaml:"instructions"`
	History      *int              `yaml:"history"`
	Extra        map[string]any    `yaml:"extra"`
	Transport    string            `yaml:"transport"` // nemo: http or websocket
	Ask          *bool             `yaml:"ask"`       // ag-ui: offer the tool ask_person
	Wait         time.Duration     `yaml:"wait"`
	Silence      time.Duration     `yaml:"silence"`
	Limit        time.Duration     `yaml:"limit"`
	MaxMiB       int64             `yaml:"max_mib"`
	Retries      *int              `yaml:"retries"`
	Recover      string            `yaml:"recover"`
}

// newHTTPAgent constructs an agent behind HTTP. Its kind is its protocol.
func newHTTPAgent(a *config.Agent, env *Env) (agent.Agent, error) {
	var c httpAgentConfig
	if err := a.Decode(&c); err != nil {
		return nil, err
	}
	opt := httpagent.Options{
		Protocol: a.Kind, URL: c.URL, Headers: c.Headers, Model: c.Model, Instructions: strings.TrimSpace(c.Instructions), Extra: c.Extra,
		Wait: c.Wait, Idle: c.Silence, Limit: c.Limit, Max: c.MaxMiB << 20, Recover: c.Recover, Files: env.Files, Logger: env.Logger.With("agent", a.Name),
	}
	var errs []error
	bad := func(field, format string, args ...any) { errs = append(errs, a.Errorf(field, format, args...)) }
	if c.URL == "" {
		bad("url", "it is missing: the address of the endpoint")
	} else if err := httpagent.CheckURL(c.URL); err != nil {
		bad("url", "%s", err)
	}
	switch c.Transport {
	case "", "http":
		opt.Socket = c.Transport == "" && a.Kind == httpagent.NeMo && (strings.HasPrefix(c.URL, "ws") || strings.HasSuffix(c.URL, "/websocket"))
	case "websocket":
		if opt.Socket = a.Kind == httpagent.NeMo; !opt.Socket {
			bad("transport", "only agents of kind nemo have a WebSocket")
		}
	default:
		bad("transport", "%q is not one of http, websocket", c.Transport)
	}
	if c.Ask != nil {
		if opt.NoAsk = !*c.Ask; a.Kind != httpagent.AGUI {
			bad("ask", "only agents of kind ag-ui have it")
		}
	}
	if c.Recover != "" && !slices.Contains([]string{httpagent.RecoverSafe, httpagent.RecoverAlways, httpagent.RecoverNever}, c.Recover) {
		bad("recover", "%q is not one of safe, always, never", c.Recover)
	}
	for field, d := range map[string]time.Duration{"wait": c.Wait, "silence": c.Silence, "limit": c.Limit, "max_mib": time.Duration(c.MaxMiB)} {
		if d < 0 {
			bad(field, "it cannot be negative")
		}
	}
	if c.Retries != nil {
		if opt.Retries = *c.Retries; *c.Retries <= 0 {
			opt.Retries = -1
		}
	}
	if c.History != nil {
		if opt.History = *c.History; *c.History < 1 {
			bad("history", "it is at least 1: the message that is answered")
		}
	}
	var err error
	opt.Key, err = endpointKey(a, c.KeyEnv, c.KeyFile, "")
	errs = append(errs, err, expandAll(a, "headers", c.Headers))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return httpagent.New(opt)
}
