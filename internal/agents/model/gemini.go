package model

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/gemini"
)

// geminiAPI speaks the Gemini API.
type geminiAPI struct {
	opt    *Options
	base   string
	client *http.Client
}

func (g *geminiAPI) open(ctx context.Context, key string) (*genai.Client, error) {
	if key == "" {
		key = "none" // else the SDK looks for one in the environment
	}
	headers := http.Header{}
	for name, value := range g.opt.Headers {
		headers.Set(name, value)
	}
	base := g.base
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	return genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: key, Backend: genai.BackendGeminiAPI, HTTPClient: g.client,
		HTTPOptions: genai.HTTPOptions{BaseURL: base, Headers: headers},
	})
}

func (g *geminiAPI) list(ctx context.Context, key string) error {
	c, err := g.open(ctx, key)
	if err == nil {
		_, err = c.Models.List(ctx, &genai.ListModelsConfig{PageSize: 1})
	}
	return err
}

func (g *geminiAPI) ask(ctx context.Context, key string, r llm.Request, alive func(), see func(llm.Delta) error) (llm.Answer, error) {
	c, err := g.open(ctx, key)
	if err != nil {
		return llm.Answer{}, failure(ctx, err)
	}
	contents, config := gemini.Contents(r)
	if g.opt.Temperature != nil {
		t := float32(*g.opt.Temperature)
		config.Temperature = &t
	}
	if budget := int32(budgets[r.Effort]); budget > 0 {
		config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: &budget}
	}
	s := gemini.Stream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}}
	ended := false
	for chunk, err := range c.Models.GenerateContentStream(ctx, r.Model, contents, config) {
		if err != nil {
			return llm.Answer{}, failure(ctx, err)
		}
		alive()
		for _, c := range chunk.Candidates {
			ended = ended || c != nil && c.FinishReason != ""
		}
		if f := chunk.PromptFeedback; f != nil && f.BlockReason != "" {
			ended = true
		}
		for _, d := range s.Add(chunk) {
			if err := see(d); err != nil {
				return llm.Answer{}, err
			}
		}
	}
	if !ended {
		return llm.Answer{}, cutOff(ctx)
	}
	return s.Answer()
}
