package model

import (
	"net/http"
	"time"
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

// endpoints are the addresses of the providers' own servers.
var endpoints = map[string]string{
	OpenAI: "https://api.openai.com/v1/", Responses: "https://api.openai.com/v1/",
	Anthropic: "https://api.anthropic.com/", Gemini: "https://generativelanguage.googleapis.com/",
}

var protocols = map[string]protocol{
	OpenAI: chatProtocol, Responses: responsesProtocol, Anthropic: anthropicProtocol, Gemini: geminiProtocol,
}

// transport is the transport for all endpoints. It has no limit of time: an answer
// may take long, and retry.go watches that events keep coming.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.TLSHandshakeTimeout = 10 * time.Second
	return t
}
