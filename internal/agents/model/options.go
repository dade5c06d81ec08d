package model

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/tool"
)

// Options configure an agent. Model is required; package agentconfig checks the values.
type Options struct {
	Provider string                 // one of Providers; "" means OpenAI
	Endpoint string                 // base URL; "" means the provider's own server
	Model    string                 // the endpoint's name of the model
	Models   []string               // other models that a session may select; "*" allows any
	Key      func() (string, error) // called before each request; nil means no key
	Headers  map[string]string      // additional headers of each request

	Instructions string   // system prompt
	Window       int      // tokens of the model's context window; 0 means 128 000
	MaxTokens    int      // maximum tokens of one answer; 0 means the endpoint's limit
	Temperature  *float64 // nil means the endpoint's default
	Effort       string   // reasoning effort: low, medium, high; "" means the endpoint's default

	MaxSteps int           // maximum model requests with tool calls in one turn; 0 means 50
	Retries  int           // retries of a request; 0 means 4, -1 none
	Backoff  time.Duration // pause before the first retry, doubled for each further one; 0 means 1 s
	Idle     time.Duration // maximum time between two events of an endpoint; 0 means 2 min
	Timeout  time.Duration // timeout of one tool call; 0 means 2 min
	Ask      time.Duration // timeout of an approval request; 0 means none

	Tools   []tool.Tool    // built-in tools
	Servers []*tool.Server // MCP servers
	Rules   []tool.Rule    // rules for tools; the first match applies

	Grants Grants       // permanent permissions; nil means that permissions end with the session
	Files  FileFunc     // reads files of a session, such as images; nil means that they are not sent to the model
	Logger *slog.Logger // nil means no logging
}

// FileFunc reads a file of a session.
type FileFunc func(ctx context.Context, id chat.SessionID, path string) (data []byte, mediaType string, err error)

// Grants stores permanent permissions of agents.
type Grants interface {
	// Granted lists the scopes that the owner of a session has granted to an agent
	// permanently.
	Granted(ctx context.Context, id chat.SessionID, agent string) ([]string, error)
	// Keep stores the permanent permissions that people granted in a session. It is
	// idempotent.
	Keep(ctx context.Context, id chat.SessionID) error
}

// maxPicture is the maximum total size in bytes of the session files sent with one
// request.
const maxPicture = 8 << 20

func (o *Options) fill() {
	o.Provider = cmp.Or(o.Provider, OpenAI)
	o.Window = cmp.Or(o.Window, 128_000)
	o.MaxSteps = cmp.Or(o.MaxSteps, 50)
	o.Retries = cmp.Or(o.Retries, 4)
	o.Backoff = cmp.Or(o.Backoff, time.Second)
	o.Idle = cmp.Or(o.Idle, 2*time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	if o.Key == nil {
		o.Key = func() (string, error) { return "", nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
