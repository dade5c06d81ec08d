package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/tool"
)

// Options of an agent. Provider and Model have to be given.
type Options struct {
	Provider string                 // one of Providers; "" means OpenAI
	Endpoint string                 // base address; "" means the provider's own
	Model    string                 // as the endpoint names it
	Models   []string               // others that people may choose for a session; "*" is any
	Key      func() (string, error) // read before each request; nil means none
	Headers  map[string]string      // sent along with each request

	Instructions string   // the first instructions of the model
	Window       int      // tokens that the model's context has; 0 means 128 000
	MaxTokens    int      // of one answer; 0 means the endpoint's own limit
	Temperature  *float64 // nil means the endpoint's own
	Effort       string   // how much to think: low, medium, high; "" means the endpoint's own

	MaxSteps int           // calls of the model in one turn; 0 means 50
	Retries  int           // how often a request is tried again; 0 means 4, -1 never
	Backoff  time.Duration // before the first of them, then twice as long each; 0 means 1 s
	Idle     time.Duration // how long an endpoint may be silent; 0 means 2 min
	Timeout  time.Duration // of one tool call; 0 means 2 min
	Ask      time.Duration // how long a person has to approve; 0 means for ever

	Tools   []tool.Tool    // built in
	Servers []*tool.Server // of MCP
	Rules   []tool.Rule    // about tools, the first that fits counts

	Grants Grants       // what people have allowed for good; nil means that nothing lasts longer than its session
	Files  FileFunc     // reads files of a session, such as pictures; nil means they are left out
	Client *http.Client // nil means one of its own
	Logger *slog.Logger // nil means none
}

// FileFunc reads a file of a session.
type FileFunc func(ctx context.Context, id chat.SessionID, path string) (data []byte, mediaType string, err error)

// Grants keeps what people have allowed agents for good.
type Grants interface {
	// Granted lists what the owner of a session has allowed an agent.
	Granted(ctx context.Context, id chat.SessionID, agent string) ([]string, error)
	// Keep sees to it that what people decided in a session is kept. It may be
	// repeated.
	Keep(ctx context.Context, id chat.SessionID) error
}

// maxPicture bounds the pictures that are sent along.
const maxPicture = 8 << 20

// Validate returns all that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Provider != "" && !slices.Contains(Providers, o.Provider) {
		errs = append(errs, fmt.Errorf("provider %q is not one of %s", o.Provider, strings.Join(Providers, ", ")))
	}
	if o.Model == "" {
		errs = append(errs, errors.New("model is missing"))
	}
	if o.Effort != "" && budgets[o.Effort] == 0 {
		errs = append(errs, fmt.Errorf("effort %q is not one of low, medium, high", o.Effort))
	}
	return errors.Join(errs...)
}

func (o *Options) fill() {
	if o.Provider == "" {
		o.Provider = OpenAI
	}
	if o.Window == 0 {
		o.Window = 128_000
	}
	if o.MaxSteps == 0 {
		o.MaxSteps = 50
	}
	if o.Retries == 0 {
		o.Retries = 4
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	if o.Idle == 0 {
		o.Idle = 2 * time.Minute
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Key == nil {
		o.Key = func() (string, error) { return "", nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
