package model

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/gemini"
)

var geminiProtocol = protocol{address: "https://generativelanguage.googleapis.com/", keyVariable: "GEMINI_API_KEY", models: "v1beta/models?pageSize=1", open: openGemini, authorize: func(h http.Header, key string) {
	if key != "" {
		h.Set("X-Goog-Api-Key", key)
	}
}}

func openGemini(opt *Options, r *llm.Request) (apiRequest, error) {
	name := r.Model
	if !strings.HasPrefix(name, "models/") && !strings.HasPrefix(name, "tunedModels/") {
		name = "models/" + name
	}
	if strings.Contains(name, "..") {
		return apiRequest{}, &Failure{Code: agent.CodeRefused, Msg: fmt.Sprintf("%q is not the name of a model", r.Model)}
	}
	body := gemini.Contents(*r)
	body.Config.Temperature = opt.Temperature
	if budget := budgets[r.Effort]; budget > 0 {
		body.Config.Thinking = &gemini.Thinking{IncludeThoughts: true, Budget: budget}
	}
	return apiRequest{
		path: "v1beta/" + strings.ReplaceAll(url.PathEscape(name), "%2F", "/") + ":streamGenerateContent?alt=sse", body: body,
		stream: &gemini.Stream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}},
	}, nil
}
