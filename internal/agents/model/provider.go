package model

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/parley-hq/parley/internal/llm"
)

// The providers that an agent can talk to.
const (
	OpenAI    = "openai"    // Chat Completions, as nearly every server speaks it
	Responses = "responses" // OpenAI's Responses
	Anthropic = "anthropic"
	Gemini    = "gemini"
)

// Providers lists them.
var Providers = []string{OpenAI, Responses, Anthropic, Gemini}

// KeyVariables are the environment variables in which the providers' own tools
// look for a key.
var KeyVariables = map[string]string{
	OpenAI: "OPENAI_API_KEY", Responses: "OPENAI_API_KEY", Anthropic: "ANTHROPIC_API_KEY", Gemini: "GEMINI_API_KEY",
}

// endpoints are where the providers' own servers are.
var endpoints = map[string]string{
	OpenAI: "https://api.openai.com/v1/", Responses: "https://api.openai.com/v1/",
	Anthropic: "https://api.anthropic.com/", Gemini: "https://generativelanguage.googleapis.com/",
}

// provider asks a model over one wire protocol. Its errors are of type
// *Failure, except those of see, which come back as they are.
type provider interface {
	// ask sends a request and hands every piece of the answer to see. alive is
	// called whenever something came in.
	ask(ctx context.Context, key string, r llm.Request, alive func(), see func(llm.Delta) error) (llm.Answer, error)
	// list asks for the models, to see whether the endpoint takes the key. Its
	// error is the SDK's.
	list(ctx context.Context, key string) error
}

func newProvider(opt *Options, client *http.Client) provider {
	base := opt.Endpoint
	if base == "" {
		base = endpoints[opt.Provider]
	}
	switch opt.Provider {
	case Responses:
		return &responsesAPI{openAI{opt, base, client}}
	case Anthropic:
		return newEndpoint(opt, client, anthropicProtocol)
	case Gemini:
		return newEndpoint(opt, client, geminiProtocol)
	}
	return &chatAPI{openAI{opt, base, client}}
}

// transport is what all endpoints are reached through. Answers may take their
// time; that they come at all is watched elsewhere.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.TLSHandshakeTimeout = 10 * time.Second
	return t
}

// drain reads what is left behind the end of an answer, so that the connection
// can be used again: a new one costs a handshake before the next first word.
func drain(r *http.Response) {
	if r != nil {
		_, _ = io.CopyN(io.Discard, r.Body, 4<<10) // a connection that cannot be used again is closed
	}
}
