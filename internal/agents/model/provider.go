package model

import (
	"net/http"
	"time"
)

// The supported providers.
const (
	OpenAI    = "openai"    // Chat Completions, which most servers implement
	Responses = "responses" // OpenAI's Responses API
	Anthropic = "anthropic"
	Gemini    = "gemini"
)

// Providers lists the supported providers.
var Providers = []string{OpenAI, Responses, Anthropic, Gemini}

// KeyVariable returns the environment variable in which a provider's own tools look
// for a key.
func KeyVariable(provider string) string { return protocols[provider].keyVariable }

var protocols = map[string]protocol{
	OpenAI: chatProtocol, Responses: responsesProtocol, Anthropic: anthropicProtocol, Gemini: geminiProtocol,
}

// transport returns the HTTP transport for all endpoints. It has no overall timeout,
// because an answer may take long; retry.go checks that events keep arriving.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.TLSHandshakeTimeout = 10 * time.Second
	// Each answer that is being written holds both buffers, and most answers arrive in events of a few hundred bytes.
	t.ReadBufferSize, t.WriteBufferSize = 2<<10, 1<<10
	return t
}
