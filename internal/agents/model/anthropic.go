package model

import (
	"net/http"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/anthropic"
)

var anthropicProtocol = protocol{address: "https://api.anthropic.com/", keyVariable: "ANTHROPIC_API_KEY", models: "v1/models", open: openAnthropic, authorize: func(h http.Header, key string) {
	h.Set("Anthropic-Version", "2023-06-01")
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}}

// budgets maps each effort to the number of thinking tokens, in addition to the tokens
// of the answer.
var budgets = map[string]int64{"low": 2048, "medium": 8192, "high": 24576}

func openAnthropic(opt *Options, r *llm.Request) (apiRequest, error) {
	body := anthropic.Messages(*r)
	body.Temperature = opt.Temperature
	if budget := budgets[r.Effort]; budget > 0 && anthropic.MayThink(body) {
		body.MaxTokens += budget
		body.Thinking = &anthropic.Thinking{Type: "enabled", BudgetTokens: budget}
		body.Temperature = nil // Anthropic does not accept a temperature together with thinking
	}
	return apiRequest{path: "v1/messages", body: body, stream: &anthropic.Stream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}}}, nil
}
