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

// KeyVariables maps each provider to the environment variable in which its own tools
// look for a key.
var KeyVariables = map[string]string{
	OpenAI: "OPENAI_API_KEY", Responses: "OPENAI_API_KEY", Anthropic: "ANTHROPIC_API_KEY", Gemini: "GEMINI_API_KEY",
}

// endpoints maps each provider to the address of its own servers.
var endpoints = map[string]string{
	OpenAI: "https://api.openai.com/v1/", Responses: "https://api.openai.com/v1/",
	Anthropic: "https://api.anthropic.com/", Gemini: "https://generativelanguage.googleapis.com/",
}

var protocols = map[string]protocol{
	OpenAI: chatProtocol, Responses: responsesProtocol, Anthropic: anthropicProtocol, Gemini: geminiProtocol,
}

// transport returns the HTTP transport for all endpoints. It has no overall timeout,
// because an answer may take long; retry.go checks that events keep arriving.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.TLSHandshakeTimeout = 10 * time.Second
	return t
}
