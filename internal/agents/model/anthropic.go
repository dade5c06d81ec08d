package model

import (
	"context"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/anthropic"
)

// anthropicAPI speaks Anthropic's Messages.
type anthropicAPI struct {
	opt    *Options
	base   string
	client *http.Client
}

func (a *anthropicAPI) options(key string) []option.RequestOption {
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithBaseURL(a.base), option.WithHTTPClient(a.client), option.WithMaxRetries(0),
	}
	if key != "" {
		opts = append(opts, option.WithAPIKey(key))
	}
	for name, value := range a.opt.Headers {
		opts = append(opts, option.WithHeader(name, value))
	}
	return opts
}

func (a *anthropicAPI) list(ctx context.Context, key string) error {
	models := sdk.NewModelService(a.options(key)...)
	_, err := models.List(ctx, sdk.ModelListParams{})
	return err
}

// budgets are the tokens that a model may think for; what it says comes on top.
var budgets = map[string]int64{"low": 2048, "medium": 8192, "high": 24576}

func (a *anthropicAPI) ask(ctx context.Context, key string, r llm.Request, alive func(), see func(llm.Delta) error) (llm.Answer, error) {
	p := anthropic.Messages(r)
	if a.opt.Temperature != nil {
		p.Temperature = param.NewOpt(*a.opt.Temperature)
	}
	if budget := budgets[r.Effort]; budget > 0 && anthropic.MayThink(&p) {
		p.MaxTokens += budget
		p.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
		p.Temperature = param.Opt[float64]{} // it may not be given together with thinking
	}
	service := sdk.NewMessageService(a.options(key)...)
	var response *http.Response
	stream := service.NewStreaming(ctx, p, option.WithResponseInto(&response))
	defer stream.Close()
	s := anthropic.Stream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}}
	begun, ended := false, false
	for stream.Next() {
		alive()
		begun = true
		e := stream.Current()
		ended = ended || e.Type == "message_stop" || e.Type == "message_delta" && e.Delta.StopReason != ""
		for _, d := range s.Add(e) {
			if err := see(d); err != nil {
				return llm.Answer{}, err
			}
		}
	}
	if err := stream.Err(); err != nil {
		return llm.Answer{}, failure(ctx, err)
	}
	if !ended {
		return llm.Answer{}, unended(ctx, response, begun)
	}
	drain(response)
	return s.Answer()
}
