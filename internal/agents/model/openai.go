package model

import (
	"net/http"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/openai"
)

const openAIAddress, openAIKey = "https://api.openai.com/v1/", "OPENAI_API_KEY"

var (
	chatProtocol      = protocol{address: openAIAddress, keyVariable: openAIKey, models: "models", open: openChat, authorize: bearer, doneEnds: true}
	responsesProtocol = protocol{address: openAIAddress, keyVariable: openAIKey, models: "models", open: openResponses, authorize: bearer}
)

func bearer(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func openChat(opt *Options, r *llm.Request) (apiRequest, error) {
	body := openai.Chat(*r)
	body.Temperature, body.ReasoningEffort = opt.Temperature, r.Effort
	return apiRequest{path: "chat/completions", body: body, stream: &openai.ChatStream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}}}, nil
}

func openResponses(opt *Options, r *llm.Request) (apiRequest, error) {
	body := openai.Responses(*r)
	body.Temperature = opt.Temperature
	if r.Effort != "" {
		if body.Reasoning == nil {
			body.Reasoning = &openai.Reasoning{}
		}
		body.Reasoning.Effort = r.Effort
	}
	return apiRequest{path: "responses", body: body, stream: &openai.ResponsesStream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}}}, nil
}
